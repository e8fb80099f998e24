#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/core/grad_mode.h>

namespace weft {

namespace {

/// Whether a gradient is wanted of one of the arguments.
bool wants_gradient(c10::ArrayRef<c10::IValue> arguments) {
  return at::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
           return value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad();
         });
}

/// The mesh of the first distributed tensor.
DeviceMesh mesh_of(c10::ArrayRef<c10::IValue> arguments) {
  const auto found = std::find_if(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
    return value.isTensor() && is_dtensor(value.toTensor());
  });
  TORCH_INTERNAL_ASSERT(found != arguments.end());
  return as_dtensor(found->toTensor())->spec()->mesh();
}

/// This rank's local tensor of the replicated argument; a plain number as it is.
at::Tensor replicated_local(
    const c10::OperatorHandle& op,
    size_t argument,
    const at::Tensor& tensor,
    const DeviceMesh& mesh) {
  const auto* impl = as_dtensor(tensor);
  if (impl == nullptr) {
    check_may_be_plain(op, argument, tensor);
    return tensor;
  }
  TORCH_CHECK_VALUE(
      impl->spec()->mesh() == mesh, "[", op.schema().name(), "] all tensors must be on the same mesh, but got ",
      mesh.to_string(), " and ", impl->spec()->mesh().to_string(),
      ". Redistribute them on one mesh through full_tensor.");
  return to_local(move_implicitly(op.schema().name().c_str(), tensor, replicated(mesh)));
}

class OnReplicatedLocals final : public c10::OperatorKernel {
 public:
  explicit OnReplicatedLocals(bool for_gradients_only) : for_gradients_only_(for_gradients_only) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    const auto count = op.schema().arguments().size();
    const auto arguments = torch::jit::last(*stack, count);
    if (for_gradients_only_ && !wants_gradient(arguments)) {
      op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
      return;
    }
    const auto mesh = mesh_of(arguments);
    for (size_t i = 0; i < count; ++i) {
      auto& value = torch::jit::peek(*stack, i, count);
      if (value.isTensor() && value.toTensor().defined()) {
        value = replicated_local(op, i, value.toTensor(), mesh);
      }
    }
    op.callBoxed(stack);
    stack->back() = from_local(stack->back().toTensor(), mesh, replicated(mesh));
  }

 private:
  bool for_gradients_only_;
};

void add(torch::Library& library, const char* name, bool for_gradients_only) {
  library.impl(
      name, torch::CppFunction::makeFromBoxedFunctor(std::make_unique<OnReplicatedLocals>(for_gradients_only)));
}

} // namespace

void register_on_replicated_locals(torch::Library& library, torch::Library& autograd) {
  add(autograd, "linalg_householder_product", /*for_gradients_only=*/true);
  add(autograd, "ormqr", /*for_gradients_only=*/true);
  for (const auto* overload : {"", ".atol_rtol_float", ".atol_rtol_tensor", ".tol_tensor"}) {
    for (auto* each : {&library, &autograd}) {
      add(*each, (std::string("linalg_matrix_rank") + overload).c_str(), /*for_gradients_only=*/false);
    }
  }
}

} // namespace weft
