#include "weft/graph/capture/run_without_data.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>

namespace weft::graph {

namespace {

using torch::jit::Stack;

bool is_plain_meta(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
      value.toTensor().key_set().has_backend(c10::BackendComponent::MetaBit);
}

/// The value with every tensor in it, also in lists, replaced by `fn` of it.
template <class Fn>
c10::IValue with_tensors(const c10::IValue& value, const Fn& fn) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? fn(value.toTensor()) : value;
  }
  if (!value.isTensorList() && !value.isOptionalTensorList()) {
    return value;
  }
  c10::impl::GenericList list(value.toList().elementType());
  for (const c10::IValue& element : value.toListRef()) {
    list.push_back(with_tensors(element, fn));
  }
  return list;
}

bool takes_meta(c10::ArrayRef<c10::IValue> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
    if (!value.isTensorList() && !value.isOptionalTensorList()) {
      return is_plain_meta(value);
    }
    const auto list = value.toListRef();
    return std::any_of(list.begin(), list.end(), &is_plain_meta);
  });
}

/// Whether the call returns new tensors whose shapes depend only on shapes.
bool can_run_on_zeros(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return !op.schema().is_mutable() && !op.hasTag(at::Tag::dynamic_output_shape) &&
      !op.hasTag(at::Tag::data_dependent_output) && !returns.empty() &&
      std::none_of(returns.begin(), returns.end(), [](const auto& result) { return result.alias_info() != nullptr; });
}

at::Tensor zeros_like_meta(const at::Tensor& tensor) {
  return tensor.is_meta()
      ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU)).zero_()
      : tensor;
}

at::Tensor on_meta(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

void run_on_zeros(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (auto& value : *stack) {
    const bool is_meta = value.isDevice() && value.toDevice().is_meta();
    value = is_meta ? c10::IValue(c10::Device(c10::kCPU)) : with_tensors(value, zeros_like_meta);
  }
  op.callBoxed(stack);
  for (auto& value : *stack) {
    value = with_tensors(value, on_meta);
  }
}

} // namespace

void run_without_data(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto count = op.schema().arguments().size();
  if (!takes_meta(torch::jit::last(*stack, count))) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  const auto below = stack->size() - count;
  const auto arguments = torch::jit::last(*stack, count).vec();
  try {
    op.redispatchBoxed(keys, stack);
    return;
  } catch (const c10::Error&) {
    if (!can_run_on_zeros(op)) {
      throw;
    }
  }
  Stack own = arguments;
  run_on_zeros(op, &own);
  stack->resize(below);
  stack->insert(stack->end(), own.begin(), own.end());
}

} // namespace weft::graph
