#include "weft/tensor/boundary/implicit_move.h"

#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/communicator.h"
#include "weft/core/traced_tensor.h"
#include "weft/redistribute/functional_group.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/redistribute/plan.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"

#include <algorithm>

namespace weft {

bool is_recorded_by_operators(const at::Tensor& local) {
  return is_traced(local) || LocalRecorder::of_thread() != nullptr;
}

at::Tensor move_implicitly(const char* op, const at::Tensor& tensor, const Layout& layout) {
  const auto& spec = checked_values(op, tensor).spec();
  if (spec->layout() == layout) {
    return tensor;
  }
  if (Scopes::of_thread().any()) {
    const auto move = plan(spec, spec->with(layout));
    if (std::any_of(move.steps.begin(), move.steps.end(), [](const Step& step) { return communicates(step.kind); })) {
      auto explanation = std::make_shared<Explanation>();
      explanation->op = op;
      explanation->inputs = {spec->to_string()};
      explanation->strategy = layout.to_string();
      explanation->plans = {"0: " + move.to_string()};
      explanation->bytes = static_cast<int64_t>(received_bytes(move));
      explanation->why = "the local results are combined over the ranks";
      tell_scopes(explanation, /*communicates=*/true);
    }
  }
  const OperatorScope scope(op);
  return redistribute(tensor, layout);
}

at::Tensor reduce_implicitly(
    const char* op,
    const at::Tensor& local,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    ReduceOp reduction) {
  if (Scopes::of_thread().any()) {
    auto explanation = std::make_shared<Explanation>();
    explanation->op = op;
    explanation->inputs = {c10::str(local.numel(), " numbers on ", mesh.to_string())};
    explanation->strategy = "all_reduce(" + std::string(to_string(reduction)) + ") over " + mesh.dims_text(mesh_dims);
    explanation->why = "the local results are combined over the ranks, for all tensors at once";
    tell_scopes(explanation, /*communicates=*/true);
  }
  const OperatorScope scope(op);
  return is_recorded_by_operators(local) ? FunctionalGroup(mesh, mesh_dims).all_reduce(local, reduction)
                                         : all_reduce(local, mesh, mesh_dims, reduction).wait();
}

void exchange_slices(
    const char* op,
    const at::Tensor& like,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    const std::vector<at::Tensor>& sends,
    const std::vector<at::Tensor>& recvs) {
  const OperatorScope scope(op);
  if (!is_recorded_by_operators(like)) {
    Communicator::of(mesh).group(mesh, mesh_dims)->all_to_all(sends, recvs).wait();
    return;
  }
  std::vector<c10::DimVector> shapes;
  for (const auto& each : recvs) {
    shapes.emplace_back(each.defined() ? c10::DimVector(each.sizes()) : c10::DimVector{0});
  }
  const auto messages = FunctionalGroup(mesh, mesh_dims).all_to_all(sends, shapes, like.options());
  for (size_t i = 0; i < recvs.size(); ++i) {
    if (messages[i].defined()) {
      recvs[i].copy_(messages[i]);
    }
  }
}

} // namespace weft
