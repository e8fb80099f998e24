#include "weft/tensor/dispatch/fused_optimizer.h"

#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/scopes.h"

#include <algorithm>

namespace weft {

namespace {

using ArgumentKind = OperatorSchema::ArgumentKind;

/// The spec of a parameter's distributed tensors; `is_plain` where it has a plain one that is no number.
struct ParameterSpec {
  const TensorSpec* spec = nullptr;
  bool is_plain = false;
};

bool is_list(const OperatorSchema& schema, size_t argument, const c10::IValue& value) {
  return schema.arguments[argument] == ArgumentKind::TensorList && value.isTensorList();
}

/// Whether a tensor may be updated with those of the same parameter that were seen before.
bool joins(const at::Tensor& tensor, ParameterSpec& parameter) {
  const auto* impl = as_dtensor(tensor);
  if (impl == nullptr) {
    parameter.is_plain |= tensor.dim() > 0;
    return !(parameter.is_plain && parameter.spec != nullptr);
  }
  const auto* spec = impl->spec().get();
  const bool is_first = parameter.spec == nullptr && !parameter.is_plain;
  parameter.spec = is_first ? spec : parameter.spec;
  return parameter.spec == spec && spec->mesh().is_member() && !spec->layout().has_partial() &&
      !impl->is_copy_of_base() && !impl->is_stale() && (impl->is_pending() || !is_traced(impl->local()));
}

bool are_independent(const OperatorSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<ParameterSpec> parameters;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    if (!is_list(schema, i, value)) {
      if (value.isTensor() && value.toTensor().defined() && is_dtensor(value.toTensor())) {
        return false;
      }
      continue;
    }
    const auto list = value.toListRef();
    parameters.resize(std::max(parameters.size(), list.size()));
    for (size_t k = 0; k < list.size(); ++k) {
      if (!joins(list[k].toTensor(), parameters[k])) {
        return false;
      }
    }
  }
  return true;
}

/// The tensors with the local ones in place of those that are distributed.
c10::List<at::Tensor> local_list(c10::ArrayRef<c10::IValue> list, bool is_written) {
  c10::List<at::Tensor> locals;
  locals.reserve(list.size());
  for (const auto& value : list) {
    const auto& tensor = value.toTensor();
    auto* impl = as_dtensor(tensor);
    if (impl == nullptr) {
      locals.push_back(tensor);
      continue;
    }
    if (is_parameter(tensor) && impl->claim_gradient_layout()) {
      keep_gradient_layout(tensor);
    }
    if (is_written) {
      impl->count_write();
    }
    locals.push_back(impl->local());
  }
  return locals;
}

} // namespace

bool run_fused_optimizer(const c10::OperatorHandle& op, const OperatorSchema& schema, torch::jit::Stack& stack) {
  const auto count = schema.arguments.size();
  const bool is_watched = Scopes::of_thread().any() || MoveObserver::of_thread() != nullptr;
  if (is_watched || !are_independent(schema, torch::jit::last(stack, count))) {
    return false;
  }
  auto* arguments = stack.data() + stack.size() - count;
  for (size_t i = 0; i < count; ++i) {
    if (is_list(schema, i, arguments[i])) {
      const auto list = arguments[i]; // keeps the tensors
      arguments[i] = local_list(list.toListRef(), schema.writes(static_cast<int64_t>(i)));
    }
  }
  op.callBoxed(&stack);
  return true;
}

} // namespace weft
