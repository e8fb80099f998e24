#pragma once

#include "weft/graph/ir/type.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace weft::graph {

/// The type of this tensor in a program; a distributed tensor has its global type.
TensorType traced_type(const at::Tensor& tensor);

/// nullopt if the value is not a number.
std::optional<NumberType> traced_number(const c10::IValue& value);

/// A tensor of this type without data; its sizes must be numbers.
at::Tensor meta_tensor(const TensorType& type);

bool has_fixed_sizes(const TensorType& type);

} // namespace weft::graph
