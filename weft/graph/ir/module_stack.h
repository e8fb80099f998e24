#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The modules that a node was called in, from the model itself inwards, each by its path and its type:
/// {"", "Model"}, {"layers.0", "Block"}, {"layers.0.wq", "torch.nn.modules.linear.Linear"}. Empty where nothing is known.
std::vector<std::pair<std::string, std::string>> module_stack(const Origin& origin);

} // namespace weft::graph
