#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Operators between a collective and a matmul that change a tensor's shape or memory but not its contents.

/// Whether the node returns the rows of its first operand in the same order, with other leading dims or none: copies,
/// and views and reshapes that keep the last dim. If the tensors have layouts, the same mesh dims must shard the last
/// dim of operand and output.
bool keeps_rows(const Node& node);

/// Whether the node only changes the dtype of its operand: _to_copy, to.dtype, convert_element_type.
bool is_cast(const Node& node);

/// For t, transpose and permute: for each dim of the output, the operand's dim.
std::optional<std::vector<int64_t>> permutation_of(const Node& node);

/// The operand that is the argument; nullptr if the argument is not an operand.
Value* operand_at(const Node& node, size_t argument);

} // namespace weft::graph
