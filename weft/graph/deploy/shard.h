#pragma once

#include "weft/graph/pipeline/pass.h"

namespace weft::graph {

/// From a program to its parallel form, which is the same for all ranks: tensor_parallel, common_redistributions, dead_code,
/// micro_pipeline. Gives what was decided of collectives that could run beside matmuls.
OverlapDecisions shard(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options = {},
    const OverlapOptions& overlap = {},
    const PassOptions& passes = {});

/// From there to what a rank runs: localize, bucket_collectives (of a program that writes to no tensor), hoist_collectives,
/// dead_code. Texts of the passes go into the folder rank_<r> of the one that `passes` names.
Program program_of_rank(
    const Program& program,
    int64_t rank,
    const LocalizeOptions& options = {},
    PassOptions passes = {});

} // namespace weft::graph
