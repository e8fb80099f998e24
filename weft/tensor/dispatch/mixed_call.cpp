#include "weft/tensor/dispatch/mixed_call.h"

#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "weft/tensor/dispatch/list_call.h"

#include <ATen/ops/item.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

namespace weft {

namespace {

bool has_several_elements(const OperandRefs& operands) {
  return std::any_of(operands.begin(), operands.end(), [](const auto& ref) { return ref.position > 0; });
}

/// Whether the call writes to plain tensors only, and reads nothing but numbers of distributed ones.
bool changes_plain_by_numbers(const OperatorSchema& schema, const OperandRefs& operands) {
  return !schema.written.empty() && std::all_of(operands.begin(), operands.end(), [&](const OperandRef& ref) {
    return ref.impl == nullptr || (ref.tensor->dim() == 0 && ref.position < 0 && !schema.writes(ref.argument));
  });
}

/// The value of a distributed number as a plain tensor.
at::Tensor value_of(const at::Tensor& number) {
  const auto& impl = *as_dtensor(number);
  const auto& layout = impl.spec()->layout();
  return layout.has_partial() ? at::scalar_tensor(number.item(), impl.local().options()) : impl.local();
}

} // namespace

void run_mixed(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    torch::jit::Stack& stack,
    const OperandRefs& operands) {
  if (traits.rule != nullptr && traits.rule->per_element && has_several_elements(operands)) {
    run_by_group(op, traits.schema, operands, stack);
    return;
  }
  if (!changes_plain_by_numbers(traits.schema, operands)) {
    for (const auto& ref : operands) {
      check_may_be_plain(op, ref.argument, *ref.tensor);
    }
  }
  auto* arguments = stack.data() + stack.size() - traits.schema.arguments.size();
  for (const auto& ref : operands) {
    if (ref.impl != nullptr) {
      arguments[ref.argument] = value_of(*ref.tensor);
    }
  }
  op.callBoxed(stack);
}

} // namespace weft
