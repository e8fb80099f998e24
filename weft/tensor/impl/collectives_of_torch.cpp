#include "weft/tensor/impl/collectives_of_torch.h"

#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace weft {

namespace {

const DTensorImpl* first_distributed(const c10::IValue& value) {
  if (value.isTensor()) {
    return as_dtensor(value.toTensor());
  }
  if (!value.isList()) {
    return nullptr;
  }
  for (const c10::IValue& each : value.toListRef()) {
    if (const auto* found = first_distributed(each)) {
      return found;
    }
  }
  return nullptr;
}

} // namespace

void refuse_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  for (const auto& value : torch::jit::last(*stack, op.schema().arguments().size())) {
    const auto* found = first_distributed(value);
    TORCH_CHECK_NOT_IMPLEMENTED(
        found == nullptr, "[", op.schema().name(), "] collectives of torch.distributed take plain tensors, but got ",
        *found->spec(),
        ". Use redistribute or full_tensor, or call it on to_local(t). A module with distributed parameters needs no "
        "DistributedDataParallel: give its mesh a dim over which the batch is sharded, and backward reduces the "
        "gradients over it.");
  }
  TORCH_INTERNAL_ASSERT(false, op.schema().name(), " was called without a distributed tensor");
}

void refuse_collectives_of_torch() {
  // Kept for the life of the process, as ATen's own kernels are.
  static auto* library = new torch::Library(torch::Library::IMPL, "c10d", kDTensorKey, __FILE__, __LINE__);
  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::AutogradPrivateUse2, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("c10d::") || !dispatcher.findSchema(name)) {
      continue;
    }
    for (auto* each : {library, autograd}) {
      each->impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&refuse_collective>());
    }
  }
}

} // namespace weft
