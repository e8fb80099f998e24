#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace weft::graph {

/// Properties of operators that matter for recording.

/// Calls `fn` with every tensor in the value, also in a list.
template <class Fn>
void each_tensor(const c10::IValue& value, const Fn& fn) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) {
      fn(value.toTensor());
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) {
      each_tensor(element, fn);
    }
  }
}

bool takes_tensors(c10::ArrayRef<c10::IValue> arguments);
bool gives_tensors(const c10::FunctionSchema& schema);

bool is_written(const c10::Argument& argument);
/// Whether the operator returns views and does not read the data of its operands.
bool is_view(const c10::FunctionSchema& schema);
/// Whether it returns uninitialized memory, as aten::empty does.
bool gives_blank(const c10::FunctionSchema& schema);

/// Whether it returns a number or a bool that depends on the values of tensors.
bool reads_numbers(const c10::OperatorHandle& op);
/// Whether the shape of its result for these arguments depends on the values of tensors.
bool has_open_shape(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// Whether it is one of torch's functional collectives, or the wait for one.
bool is_functional_collective(const c10::OperatorHandle& op);

/// The overload with a number as second argument where this one takes a tensor: aten::mul.Scalar for aten::mul.Tensor.
std::optional<c10::OperatorHandle> taking_number(const c10::OperatorHandle& op);
/// The number of a wrapped-number tensor, as x * 2 makes one; nullopt for any other tensor.
std::optional<c10::IValue> wrapped_number(const c10::IValue& value);

/// Whether the value is the argument's default.
bool is_default(const c10::Argument& argument, const c10::IValue& value);

} // namespace weft::graph
