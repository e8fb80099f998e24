#pragma once

#include "weft/graph/pt2/json_field.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>

namespace weft::graph {

/// The operator that a node of a file calls.
struct FoundOperator {
  c10::OperatorHandle op;
  /// The names of arguments in the file that the operator names otherwise.
  std::map<std::string, std::string> renamed = {};
};

/// The operator of a node's target: aten::add.Tensor for "torch.ops.aten.add.Tensor". An operator that a Python package
/// defines for want of one of torch is replaced by torch's, because a file has no code of operators:
///
///   transformers::grouped_mm_fallback(input, weight, offs)   ->   aten::_grouped_mm(self, mat2, offs)
///
/// Raises for an operator that is not registered, with all others among the nodes.
FoundOperator find_operator(const JsonField& target, const JsonField& nodes);

} // namespace weft::graph
