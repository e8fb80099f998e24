#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The modules that a node was called in, from the model itself inwards, each by its path and its type:
/// {"", "Model"}, {"layers.0", "Block"}, {"layers.0.wq", "torch.nn.modules.linear.Linear"}. Empty where nothing is known.
std::vector<std::pair<std::string, std::string>> module_stack(const Origin& origin);

/// A call of a module that a node is in. All point into the origin's texts.
struct ModuleCall {
  std::string_view path;
  std::string_view type;
  std::string_view text; // the same for all nodes of one call, of a module that is called several times too
};
/// The stack with the calls that it is of, in the same order.
std::vector<ModuleCall> module_calls(const Origin& origin);

} // namespace weft::graph
