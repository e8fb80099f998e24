#include "weft/graph/passes/common_redistributions.h"

#include "weft/graph/passes/memory_sharing.h"

namespace weft::graph {

bool common_redistributions(Graph& graph) {
  const MemorySharing memory(graph);
  bool changed = false;
  // What a value is a redistribution of, and of every such tensor the layouts in which it exists so far.
  ValueTable<Value*> sources(graph);
  ValueTable<c10::SmallVector<Value*, 2>> forms(graph);
  for (auto* node = graph.first(); node != nullptr;) {
    auto* current = node;
    node = node->next();
    if (current->step() == nullptr || memory.is_written(current->operand(0))) {
      continue;
    }
    auto* operand = current->operand(0);
    auto* result = current->output();
    auto* const known = sources.get(operand);
    auto* const source = known == nullptr ? operand : known;
    auto& existing = forms[source];
    if (existing.empty()) {
      existing.push_back(source);
    }
    const auto same = std::find_if(
        existing.begin(), existing.end(), [&](const Value* value) { return value->layout == result->layout; });
    if (same == existing.end()) {
      sources[result] = source;
      existing.push_back(result);
    } else {
      graph.replace_all_uses(result, *same);
      graph.erase(current);
      changed = true;
    }
  }
  return changed;
}

} // namespace weft::graph
