#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Effects of operators on memory that their schemas do not declare.

/// The arguments that the node writes to although its schema does not mark them: running statistics of batch norms in
/// training.
std::vector<size_t> silently_written_arguments(const Node& node);

/// Whether the operator may return its operand or a view of it, as dropout does when it drops nothing.
bool may_give_back_operand(const c10::OperatorHandle& op);

} // namespace weft::graph
