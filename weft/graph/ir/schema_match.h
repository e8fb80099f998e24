#pragma once

#include "weft/graph/ir/graph.h"

#include <ATen/core/jit_type.h>

namespace weft::graph {

/// Whether a constant, a value or a list of these can be an argument of this type in an operator's schema.
///
///   add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1): %x, a number and 1 match
///
/// As in Python, a number is accepted for a tensor, and an integer for a float.
bool matches(const Node& node, const Argument& argument, const c10::Type& type);

/// Whether an operator with this return type in its schema can return such a value.
bool matches(const Type& value, const c10::Type& type);

} // namespace weft::graph
