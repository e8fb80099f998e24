#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// What operators do to memory and their schemas do not say.

/// Arguments that the node writes to beside those that its schema marks: running statistics of batch norms in training.
std::vector<size_t> silently_written_arguments(const Node& node);

/// Whether the operator may give back its operand as it is, as dropout does when it drops nothing, or a view of it.
bool may_give_back_operand(const c10::OperatorHandle& op);

} // namespace weft::graph
