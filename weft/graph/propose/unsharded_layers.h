#pragma once

#include "weft/graph/ir/program.h"
#include "weft/styles/parallel_plan.h"

#include <optional>

namespace weft::graph {

/// A line about the layers and experts that propose_plan would shard over `ranks`, and that a parallel plan neither shards nor
/// names. None where they have less than a tenth of the parameters, or where the parallel plan shards nothing.
///
///   the plan does not name layers with 62% of the parameters, which every rank holds and `weft plan` would shard:
///   layers.*.experts.up, layers.*.experts.down. Give them a style, or "replicate" if that is meant.
std::optional<std::string> unsharded_layers_note(const Program& program, const nn::ParallelPlan& plan, int64_t ranks);

} // namespace weft::graph
