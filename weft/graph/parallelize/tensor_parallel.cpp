#include "weft/graph/parallelize/tensor_parallel.h"

#include "weft/graph/analysis/memory_sharing.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/ir/clone.h"
#include "weft/graph/parallelize/parallel_attempt.h"
#include "weft/styles/module_layout.h"

#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

/// For a program that writes: replicates tensors that are viewed and written to if they would have to be redistributed.
Program parallel_copy(
    const Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const BufferLayouts& buffers) {
  std::unordered_set<std::string> kept_replicated;
  while (true) {
    auto attempt = clone(program);
    try {
      attempt_parallel(attempt, mesh, plan, options, buffers, kept_replicated);
      return attempt;
    } catch (const PartedByWrite& parted) {
      TORCH_CHECK_NOT_IMPLEMENTED(kept_replicated.insert(parted.original).second, parted.message);
    }
  }
}

bool writes(const Program& program) {
  return writes_to_values(*program.graph) ||
      std::any_of(program.outputs.begin(), program.outputs.end(), [](const Output& output) {
           return output.kind != OutputKind::User;
         });
}

} // namespace

void tensor_parallel(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options) {
  TORCH_CHECK_VALUE(
      !program.mesh, "[tensor_parallel] a program that is not sharded is required, but it is, over ", *program.mesh,
      ".");
  options.check(program, mesh);
  if (!writes(program)) {
    attempt_parallel(program, mesh, plan, options);
    return;
  }
  const auto mesh_dim = nn::plan_mesh_dim(mesh, options.mesh_dim, "tensor_parallel");
  const auto buffers = choose_buffer_layouts(program, mesh, mesh_dim, [&](const BufferLayouts& layouts) {
    return communication_seconds(parallel_copy(program, mesh, plan, options, layouts));
  });
  program = parallel_copy(program, mesh, plan, options, buffers);
}

} // namespace weft::graph
