#include "weft/graph/deploy/shard.h"

#include "weft/graph/analysis/memory_sharing.h"
#include "weft/graph/localize/bucket_collectives.h"
#include "weft/graph/localize/hoist_collectives.h"
#include "weft/graph/overlap/micro_pipeline.h"
#include "weft/graph/parallelize/tensor_parallel.h"
#include "weft/graph/simplify/common_redistributions.h"
#include "weft/graph/simplify/dead_code.h"

#include <algorithm>

namespace weft::graph {

namespace {

bool run_tensor_parallel(Program& program, PassContext& context) {
  tensor_parallel(program, context.mesh, context.plan, context.tensor_parallel);
  return true;
}

bool run_micro_pipeline(Program& program, PassContext& context) {
  context.decisions = micro_pipeline(program, context.overlap);
  return std::any_of(context.decisions.begin(), context.decisions.end(), [](const auto& each) { return each.fused; });
}

bool run_localize(Program& program, PassContext& context) {
  program = localize(*context.parallel, context.rank, context.localize);
  return true;
}

bool run_common_redistributions(Program& program, PassContext& /*context*/) {
  return common_redistributions(*program.graph);
}

bool run_dead_code(Program& program, PassContext& /*context*/) {
  return dead_code(*program.graph);
}

bool run_bucket_collectives(Program& program, PassContext& /*context*/) {
  return bucket_collectives(*program.graph);
}

bool run_hoist_collectives(Program& program, PassContext& /*context*/) {
  return hoist_collectives(*program.graph);
}

/// Bucketing is skipped for a program that writes to tensors: whether a shard is a copy or the tensor itself may differ
/// between ranks, and so may the writes that prevent bucketing. But all ranks must bucket the same collectives.
bool writes_nothing(const PassContext& context) {
  return !writes_to_values(*context.parallel->graph);
}

constexpr auto kGlobal = ProgramForm::Global;
constexpr auto kParallel = ProgramForm::Parallel;
constexpr auto kRank = ProgramForm::Rank;

constexpr Pass kShardPasses[] = {
    {"tensor_parallel", kGlobal, kParallel, &run_tensor_parallel},
    {"common_redistributions", kParallel, kParallel, &run_common_redistributions},
    {"dead_code", kParallel, kParallel, &run_dead_code},
    {"micro_pipeline", kParallel, kParallel, &run_micro_pipeline},
};

constexpr Pass kRankPasses[] = {
    {"localize", kParallel, kRank, &run_localize},
    {"bucket_collectives", kRank, kRank, &run_bucket_collectives, &writes_nothing},
    {"hoist_collectives", kRank, kRank, &run_hoist_collectives},
    {"dead_code", kRank, kRank, &run_dead_code},
};

} // namespace

OverlapDecisions shard(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const OverlapOptions& overlap,
    const PassOptions& passes) {
  PassContext context{.mesh = mesh, .plan = plan, .tensor_parallel = options, .overlap = overlap};
  run_passes(kShardPasses, program, kGlobal, context, passes);
  return std::move(context.decisions);
}

Program program_of_rank(const Program& program, int64_t rank, const LocalizeOptions& options, PassOptions passes) {
  if (!passes.dump_folder.empty()) {
    passes.dump_folder += "/rank_" + std::to_string(rank);
  }
  PassContext context{.parallel = &program, .rank = rank, .localize = options};
  Program local;
  run_passes(kRankPasses, local, kParallel, context, passes);
  return local;
}

} // namespace weft::graph
