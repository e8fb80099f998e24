#include "weft/graph/deploy/shard.h"

#include "weft/graph/analysis/memory_sharing.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/localize/bucket_collectives.h"
#include "weft/graph/localize/hoist_collectives.h"
#include "weft/graph/simplify/common_redistributions.h"
#include "weft/graph/simplify/dead_code.h"

namespace weft::graph {

namespace {

/// A pass that broke a graph is found where it happened.
void check([[maybe_unused]] const Program& program) {
#ifndef NDEBUG
  verify(program);
#endif
}

} // namespace

OverlapDecisions shard(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const OverlapOptions& overlap) {
  tensor_parallel(program, mesh, plan, options);
  check(program);
  for (auto* pass : {&common_redistributions, &dead_code}) {
    (*pass)(*program.graph);
    check(program);
  }
  auto decisions = micro_pipeline(program, overlap);
  check(program);
  return decisions;
}

Program program_of_rank(const Program& program, int64_t rank, const LocalizeOptions& options) {
  auto local = localize(program, rank, options);
  check(local);
  // Whether a part is a copy or the tensor itself may be another thing on another rank, and so may be what a write to it is
  // in the way of. What is put together has to be the same on all.
  if (!writes_to_values(*program.graph)) {
    bucket_collectives(*local.graph);
    check(local);
  }
  hoist_collectives(*local.graph);
  check(local);
  dead_code(*local.graph);
  check(local);
  return local;
}

} // namespace weft::graph
