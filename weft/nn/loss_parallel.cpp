#include "weft/nn/loss_parallel.h"

#include "weft/nn/cross_entropy.h"
#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <ATen/ops/cross_entropy_loss_compositeimplicitautograd_dispatch.h>
#include <torch/library.h>

namespace weft::nn {

namespace {

at::Tensor without_data(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(at::kMeta));
}

/// ATen's own implementation, composed of other operators, for any tensors.
at::Tensor composed(const CrossEntropyCall& call) {
  return at::compositeimplicitautograd::cross_entropy_loss(
      call.logits, call.target, call.weight, call.reduction, call.ignore_index, call.label_smoothing);
}

/// Raises the error of a single device for shapes that do not match.
void check_global_shapes(const CrossEntropyCall& call) {
  auto shapes = call;
  shapes.logits = without_data(call.logits);
  shapes.target = without_data(call.target);
  if (call.weight && call.weight->defined()) {
    shapes.weight = without_data(*call.weight);
  }
  composed(shapes);
}

/// Raises for plain tensors that do not count as replicated.
void check_plain_arguments(const CrossEntropyCall& call) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::cross_entropy_loss", "");
  check_may_be_plain(op, 1, call.target);
  if (call.weight && call.weight->defined()) {
    check_may_be_plain(op, 2, *call.weight);
  }
}

at::Tensor cross_entropy_loss(
    const at::Tensor& logits,
    const at::Tensor& target,
    const std::optional<at::Tensor>& weight,
    int64_t reduction,
    c10::SymInt ignore_index,
    double label_smoothing) {
  const CrossEntropyCall call{logits, target, weight, reduction, ignore_index.expect_int(), label_smoothing};
  const bool loss_parallel = Scopes::of_thread().loss_parallel;
  const ReplicatePlainScope replicate_plain(loss_parallel || Scopes::of_thread().replicate_plain);
  if (!has_distributed_classes(call)) {
    return composed(call);
  }
  if (is_regular(call)) {
    check_plain_arguments(call);
    return parallel_cross_entropy(call);
  }
  check_global_shapes(call);
  const bool has_weight = weight && weight->defined();
  TORCH_CHECK_NOT_IMPLEMENTED(
      !loss_parallel,
      "[loss_parallel] a target of classes (int64) or probabilities is required, and weights without gradient of the "
      "logits' dtype, but got a target of ",
      target.scalar_type(), has_weight ? c10::str(" and weights of ", weight->scalar_type()) : std::string(),
      " for logits ", *as_dtensor(logits)->spec(), ". Cast them, or leave the scope: outside the logits are gathered.");
  return composed(call);
}

} // namespace

// Registered for calls with autograd and for calls below it.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse2, library) {
  library.impl("cross_entropy_loss", TORCH_FN(cross_entropy_loss));
}
TORCH_LIBRARY_IMPL(aten, PrivateUse2, library) {
  library.impl("cross_entropy_loss", TORCH_FN(cross_entropy_loss));
}

} // namespace weft::nn
