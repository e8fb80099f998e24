#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Operators that stand between a collective and a matmul and change how a tensor is written, not what it is.

/// Whether the node gives the rows of its first operand, in order, under other leading dims or none: views and reshapes that
/// keep the last dim, copies. Of tensors with layouts, the last dim is cut alike before and behind it.
bool keeps_rows(const Node& node);

/// Whether it only changes the dtype of its operand: _to_copy, to.dtype, convert_element_type.
bool is_cast(const Node& node);

/// Of t, transpose and permute: the operand's dim that each dim of the output is.
std::optional<std::vector<int64_t>> permutation_of(const Node& node);

/// The operand that an argument is; nullptr for anything else.
Value* operand_at(const Node& node, size_t argument);

} // namespace weft::graph
