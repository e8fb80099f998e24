#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The modules that a node was called in, from the model inwards, each by its path and its type: {"", "Model"},
/// {"layers.0", "Block"}, {"layers.0.wq", "torch.nn.modules.linear.Linear"}. Empty if the program does not record them.
std::vector<std::pair<std::string, std::string>> module_stack(const Origin& origin);

/// The call of a module that contains a node. All members point into the texts of the node's origin.
struct ModuleCall {
  std::string_view path;
  std::string_view type;
  std::string_view text; // tells apart the calls of a module that is called several times
};
/// The same stack, each module with the call that the node belongs to.
std::vector<ModuleCall> module_calls(const Origin& origin);

} // namespace weft::graph
