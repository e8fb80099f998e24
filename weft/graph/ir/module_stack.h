#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The modules that a node was called in, from the model itself inwards, each by its path and its type:
/// {"", "Model"}, {"layers.0", "Block"}, {"layers.0.wq", "torch.nn.modules.linear.Linear"}. Empty where nothing is known.
std::vector<std::pair<std::string, std::string>> module_stack(const Origin& origin);

/// What tells the calls of a module apart that is called several times: for every entry of the stack, a text that is the
/// same for all nodes of one call.
std::vector<std::string> module_calls(const Origin& origin);

} // namespace weft::graph
