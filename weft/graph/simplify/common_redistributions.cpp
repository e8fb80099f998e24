#include "weft/graph/simplify/common_redistributions.h"

#include "weft/graph/analysis/memory_writes.h"

namespace weft::graph {

bool common_redistributions(Graph& graph) {
  const MemoryWrites writes(graph);
  bool changed = false;
  // For every value, the tensor that it is a redistribution of, and the next value that has this tensor in another
  // layout.
  ValueTable<Value*> sources(graph);
  ValueTable<Value*> next_forms(graph);
  for (auto* node = graph.first(); node != nullptr;) {
    auto* current = node;
    node = node->next();
    if (current->step() == nullptr || writes.is_written(current->operand(0))) {
      continue;
    }
    auto* operand = current->operand(0);
    auto* result = current->output();
    auto* const known = sources.get(operand);
    auto* const source = known == nullptr ? operand : known;
    auto* last = source;
    auto* same = source;
    while (same != nullptr && same->layout != result->layout) {
      last = same;
      same = next_forms.get(same);
    }
    if (same == nullptr) {
      sources[result] = source;
      next_forms[last] = result;
    } else {
      graph.replace_all_uses(result, same);
      graph.erase(current);
      changed = true;
    }
  }
  return changed;
}

} // namespace weft::graph
