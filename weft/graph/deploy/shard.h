#pragma once

#include "weft/graph/pipeline/pass.h"

namespace weft::graph {

/// Turns a program into its parallel form, which is the same for all ranks: tensor_parallel, common_redistributions,
/// dead_code, micro_pipeline. Returns the decisions about the collectives that could overlap matmuls.
OverlapDecisions shard(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options = {},
    const OverlapOptions& overlap = {},
    const PassOptions& passes = {});

/// Turns the parallel form into the program of a rank: localize, bucket_collectives (unless the program writes to
/// tensors), hoist_collectives, dead_code. Texts of the passes go into the folder rank_<r> of the folder that `passes`
/// names.
Program program_of_rank(
    const Program& program,
    int64_t rank,
    const LocalizeOptions& options = {},
    PassOptions passes = {});

} // namespace weft::graph
