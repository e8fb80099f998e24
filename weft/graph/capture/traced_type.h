#pragma once

#include "weft/graph/ir/type.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace weft::graph {

/// What a program says of this tensor: of a distributed one, of the whole.
TensorType traced_type(const at::Tensor& tensor);

/// nullopt for what is no number.
std::optional<NumberType> traced_number(const c10::IValue& value);

/// A tensor without data of this type, whose sizes must be numbers.
at::Tensor meta_tensor(const TensorType& type);

bool has_fixed_sizes(const TensorType& type);

} // namespace weft::graph
