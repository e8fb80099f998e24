#include "weft/graph/simplify/dead_code.h"

#include "weft/graph/analysis/effects.h"

#include <algorithm>

namespace weft::graph {

bool dead_code(Graph& graph) {
  bool changed = false;
  // Walks backwards, so that a value that only dead nodes used is seen after them.
  for (auto* node = graph.return_node(); node != nullptr;) {
    auto* previous = node->previous();
    const auto& outputs = node->outputs();
    const bool is_used = std::any_of(outputs.begin(), outputs.end(), [](const Value* output) {
      return output != nullptr && !output->uses().empty();
    });
    if (!is_used && !has_side_effects(*node)) {
      graph.erase(node);
      changed = true;
    }
    node = previous;
  }
  return changed;
}

} // namespace weft::graph
