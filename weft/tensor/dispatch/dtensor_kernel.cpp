#include "weft/tensor/dispatch/dtensor_kernel.h"

#include "weft/propagation/linear_numbers.h"
#include "weft/rules/register_rule.h"
#include "weft/tensor/dispatch/fused_optimizer.h"
#include "weft/tensor/dispatch/list_call.h"
#include "weft/tensor/dispatch/local_call.h"
#include "weft/tensor/dispatch/mixed_call.h"
#include "weft/tensor/dispatch/outside_call.h"
#include "weft/tensor/dispatch/overlapped_call.h"
#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/call_agreement.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/in_backward.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/replicated_plain.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/random/random_fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/item.h>

#include <algorithm>

namespace weft {

using torch::jit::Stack;
using ArgumentKind = OperatorSchema::ArgumentKind;

namespace {

/// The last word of the key of a call with numbers with which the operator is not linear.
constexpr uint64_t kNotLinear = 0x6e6f746c696e6561;
/// The last word of the key of a call that goes by its rule because it is recorded.
constexpr uint64_t kRecorded = 0x7265636f72646564;

bool updates_parameters(const c10::OperatorHandle& op, const OperatorTraits& traits) {
  const bool is_per_element = traits.rule != nullptr && traits.rule->per_element;
  return is_per_element && traits.schema.returns.empty() && op.schema().name().starts_with("aten::_fused_");
}

} // namespace

DTensorKernel::DTensorKernel(const c10::OperatorHandle& op)
    : op_(op),
      traits_(op),
      inner_dropout_(inner_dropout_argument(op)),
      is_fused_optimizer_(updates_parameters(op, traits_)),
      keeps_values_(traits_.rule != nullptr && traits_.rule->is_registered) {}

void DTensorKernel::forget_calls() const {
  keeps_values_ = find_registered_rule(op_.operator_name()) != nullptr;
  // Never freed, so that its address stays unique. Rules change a few times in a process.
  identity_ = reinterpret_cast<uintptr_t>(new std::max_align_t());
}

void DTensorKernel::call(c10::DispatchKeySet keys, Stack* stack) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto count = traits_.schema.arguments.size();
  if (C10_UNLIKELY(inner_dropout_.has_value())) {
    check_no_inner_dropout(op_, torch::jit::peek(*stack, *inner_dropout_, count));
  }
  if (C10_UNLIKELY(is_fused_optimizer_) && !keeps_values_ && run_fused_optimizer(op_, traits_.schema, *stack)) {
    return;
  }
  CallKey key;
  OperandRefs operands;
  key.add(first_word());
  if (C10_UNLIKELY(!read_arguments(torch::jit::last(*stack, count), key, operands))) {
    run_mixed(op_, current_traits(), *stack, operands);
    return;
  }
  auto& cache = CallCache::of_thread();
  auto* call = cache.find(key);
  if (call == nullptr) {
    const auto traits = current_traits();
    if (C10_UNLIKELY(traits.rule != nullptr && traits.rule->per_element && on_several_meshes(operands))) {
      run_by_group(op_, traits.schema, operands, *stack);
      return;
    }
    call = &cache.add(key, prepare(op_, traits, torch::jit::last(*stack, count), operands));
  }
  if (C10_UNLIKELY(call->needs_linear_numbers) && !keep_linear(torch::jit::last(*stack, count), operands)) {
    key.add(kNotLinear);
    call = cache.find(key);
    if (call == nullptr) {
      call = &cache.add(
          key,
          prepare(op_, current_traits(), torch::jit::last(*stack, count), operands, /*numbers_keep_linear=*/false));
    }
  }
  if (C10_UNLIKELY(call->decomposition != nullptr)) {
    if (call->decomposition->is_in_programs || MoveObserver::of_thread() == nullptr) {
      call->decomposition->kernel.callBoxed(op_, keys, stack);
      return;
    }
    key.add(kRecorded);
    call = cache.find(key);
    if (call == nullptr) {
      auto by_rule = current_traits();
      by_rule.decomposition = nullptr;
      call = &cache.add(key, prepare(op_, by_rule, torch::jit::last(*stack, count), operands));
    }
  }
  if (C10_UNLIKELY(call->is_outside)) {
    run_outside(op_, traits_.schema, *call, *stack);
    return;
  }
  if (C10_UNLIKELY(Scopes::of_thread().any())) {
    if (debug_enabled()) {
      check_agreement(*call);
      check_plain_agree(call->operands[0]->mesh(), operands);
    }
    tell_scopes(current_explanation(*call), call->communicates);
  }
  if (C10_UNLIKELY(call->is_fallback)) {
    count_fallback(*call);
  }
  run_local_call(op_, traits_.schema, *call, stack, operands);
}

OperatorTraits DTensorKernel::current_traits() const {
  auto traits = traits_;
  traits.find_rule(op_);
  return traits;
}

bool DTensorKernel::keep_linear(c10::ArrayRef<c10::IValue> arguments, const OperandRefs& operands) const {
  const UntracedScope untraced;
  const auto is_number = [](const OperandRef& ref) {
    return ref.impl == nullptr && ref.tensor->dim() == 0 && ref.tensor->is_cpu(); // others would have to be waited for
  };
  return weft::keep_linear(op_.schema(), arguments) &&
      std::all_of(operands.begin(), operands.end(), [&](const OperandRef& ref) {
           return !is_number(ref) || (!is_traced(*ref.tensor) && keeps_linear(op_.schema(), ref.tensor->item()));
         });
}

bool DTensorKernel::read_arguments(c10::ArrayRef<c10::IValue> arguments, CallKey& key, OperandRefs& operands) const {
  bool may_be_called = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& value = arguments[i];
    switch (traits_.schema.arguments[i]) {
      case ArgumentKind::Tensor:
        may_be_called &= read_tensor(value, static_cast<int32_t>(i), -1, key, operands);
        break;
      case ArgumentKind::TensorList:
      case ArgumentKind::OptionalTensorList: {
        if (value.isNone()) {
          key.add(0);
          break;
        }
        const auto list = value.toListRef();
        key.add(list.size());
        for (size_t k = 0; k < list.size(); ++k) {
          may_be_called &= read_tensor(list[k], static_cast<int32_t>(i), static_cast<int32_t>(k), key, operands);
        }
        break;
      }
      case ArgumentKind::Static:
        key.add_static(value);
        break;
      case ArgumentKind::Value:
        keeps_values_.load(std::memory_order_relaxed) ? key.add_value(value) : key.add_type(value);
        break;
      case ArgumentKind::Fill:
        key.add_fill(value);
        break;
    }
  }
  return may_be_called;
}

bool DTensorKernel::read_tensor(
    const c10::IValue& value,
    int32_t argument,
    int32_t position,
    CallKey& key,
    OperandRefs& operands) const {
  if (!value.isTensor() || !value.toTensor().defined()) {
    key.add(0);
    return true;
  }
  const auto& tensor = value.toTensor();
  auto* impl = as_dtensor(tensor);
  operands.push_back({argument, position, &tensor, impl});
  if (impl == nullptr) {
    const bool is_index = op_.schema().arguments()[argument].name() == "indices" && is_made_by_python_index(tensor);
    keep_gradient_plain(tensor);
    return read_plain(tensor, key) || is_index;
  }
  const bool is_leaf = is_parameter(tensor);
  if (C10_UNLIKELY(is_leaf && impl->claim_gradient_layout())) {
    keep_gradient_layout(tensor);
  }
  TORCH_CHECK_VALUE(
      C10_LIKELY(!impl->is_stale()), "[", op_.schema().name(), "] argument '",
      op_.schema().arguments()[argument].name(), "' (", *impl->spec(), ")", impl->why_stale());
  key.add(word_of(*impl, is_leaf));
  return true;
}

void check_may_be_plain(const c10::OperatorHandle& op, size_t argument, const at::Tensor& tensor) {
  if (is_dtensor(tensor)) {
    return;
  }
  if (counts_as_replicated(tensor)) {
    keep_gradient_plain(tensor);
    return;
  }
  const auto& named = op.schema().arguments()[argument];
  if (named.name() == "indices" && is_made_by_python_index(tensor)) {
    return;
  }
  const bool is_written = named.alias_info() != nullptr && named.alias_info()->isWrite();
  // Not a TypeError, because Python's operators would replace it by one of their own and lose the text.
  TORCH_CHECK_VALUE(
      false, "[", op.schema().name(), "] distributed and plain tensors cannot be mixed, but argument '", named.name(),
      "' is a plain tensor of shape ", tensor.sizes(), ". Distribute it with distribute_tensor or from_local, or ",
      is_written ? "store full_tensor() in it, or " : "",
      "say by a ReplicatePlainScope (in Python by weft.replicate_plain()) that it is the same on every rank.");
}

void DTensorKernel::check_plain_agree(const DeviceMesh& mesh, const OperandRefs& operands) const {
  for (const auto& ref : operands) {
    // What an operator overwrites may be uninitialised.
    if (ref.impl == nullptr && !traits_.schema.writes(ref.argument)) {
      const auto& argument = op_.schema().arguments()[ref.argument].name();
      check_replicas(mesh, *ref.tensor, c10::str("argument '", argument, "' of ", op_.schema().name()));
    }
  }
}

bool DTensorKernel::read_plain(const at::Tensor& tensor, CallKey& key) {
  key.add(word_of_plain(tensor));
  key.add(tensor.dim());
  for (const auto size : tensor.sizes()) {
    key.add(size);
  }
  return counts_as_replicated(tensor);
}

void DTensorKernel::count_fallback(const PreparedCall& call) const {
  const auto& returns = traits_.schema.returns;
  // Operators that return a number, like item, always need the global tensor on every rank, so that the user cannot
  // avoid it.
  const bool gives_tensors = std::any_of(returns.begin(), returns.end(), [](const auto& r) { return r.is_tensor; });
  if (fallbacks_++ == 0 && call.communicates && gives_tensors) {
    TORCH_WARN(
        "[", call.explanation->op, "] has no sharding rule: its inputs are replicated on every rank, here ",
        call.explanation->bytes, " bytes. Said once per operator.");
  }
}

} // namespace weft
