#pragma once

#include "weft/graph/ir/graph.h"

#include <ATen/core/jit_type.h>

namespace weft::graph {

/// Whether a constant, a value or a list of these can stand where an operator's schema wants this type.
///
///   add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1): %x, a number and 1 match
///
/// As in Python, a number may stand where the schema wants a tensor, and an integer where it wants a float.
bool matches(const Node& node, const Argument& argument, const c10::Type& type);

/// Whether an operator whose schema has this type as a return can give such a value.
bool matches(const Type& value, const c10::Type& type);

} // namespace weft::graph
