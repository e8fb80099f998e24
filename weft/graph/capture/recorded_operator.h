#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace weft::graph {

/// What recording has to know of an operator.

/// `fn` of every tensor in the value, also in a list.
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
/// Whether it gives views and reads nothing of what they are views of.
bool is_view(const c10::FunctionSchema& schema);
/// Whether it gives memory that nothing was written to yet, as aten::empty.
bool gives_blank(const c10::FunctionSchema& schema);

/// Whether a number or a truth comes out that depends on values.
bool reads_numbers(const c10::OperatorHandle& op);
/// Whether the shape of what comes out of these arguments depends on values.
bool has_open_shape(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// The operator that takes a number as its second argument where this one takes a tensor: aten::mul.Scalar for
/// aten::mul.Tensor.
std::optional<c10::OperatorHandle> taking_number(const c10::OperatorHandle& op);
/// What a tensor was made of that only stands for a number, as x * 2 makes one; nullopt of any other.
std::optional<c10::IValue> wrapped_number(const c10::IValue& value);

/// Whether this is what holds where the argument is left out.
bool is_default(const c10::Argument& argument, const c10::IValue& value);

} // namespace weft::graph
