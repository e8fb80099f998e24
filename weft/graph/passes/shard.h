#pragma once

#include "weft/graph/passes/localize.h"
#include "weft/graph/passes/micro_pipeline.h"
#include "weft/graph/passes/tensor_parallel.h"

namespace weft::graph {

/// All passes in order. From a program to its parallel form, which is the same for all ranks: tensor_parallel,
/// common_redistributions, dead_code, micro_pipeline. Gives what was decided of collectives that could run beside matmuls.
OverlapDecisions shard(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options = {},
    const OverlapOptions& overlap = {});

/// From there to what a rank runs: localize, bucket_collectives (of a program that writes to no tensor), hoist_collectives,
/// dead_code.
Program program_of_rank(const Program& program, int64_t rank, const LocalizeOptions& options = {});

/// A mesh for analysis, with nobody to talk to: "tp=4" or "dp=2,tp=2".
DeviceMesh analysis_mesh(const std::string& text);

} // namespace weft::graph
