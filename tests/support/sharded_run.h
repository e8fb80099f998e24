#pragma once

#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/shard.h"

namespace weft::testing {

struct ShardedRun {
  graph::Summary summary;
  std::string text;                 // of the sharded program
  std::vector<std::string> of_rank; // of every rank's program
  graph::OverlapDecisions decisions;
};

/// Runs a program, given as text, by itself and sharded over a mesh ("tp=4") with ranks as threads, on the same weights and
/// inputs (drawn from a seed; integers below 4), and expects the same global outputs. `sizes` are those of symbols.
ShardedRun expect_same_sharded(
    const std::string& text,
    const std::string& mesh,
    const nn::ParallelPlan& plan = {},
    const graph::TensorParallelOptions& options = {},
    const graph::Size::Values& sizes = {},
    const graph::OverlapOptions& overlap = {});

} // namespace weft::testing
