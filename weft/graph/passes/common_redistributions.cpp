#include "weft/graph/passes/common_redistributions.h"

#include "weft/graph/passes/memory_sharing.h"

namespace weft::graph {

bool common_redistributions(Graph& graph) {
  const MemorySharing memory(graph);
  bool changed = false;
  // What a value is a redistribution of, and of every such tensor the layouts in which it exists so far.
  std::unordered_map<const Value*, Value*> sources;
  std::unordered_map<const Value*, std::vector<Value*>> forms;
  for (auto* node = graph.first(); node != nullptr;) {
    auto* current = node;
    node = node->next();
    if (current->step() == nullptr || memory.is_written(current->operand(0))) {
      continue;
    }
    auto* operand = current->operand(0);
    auto* result = current->output();
    const auto known = sources.find(operand);
    auto* source = known == sources.end() ? operand : known->second;
    auto& existing = forms.try_emplace(source, 1, source).first->second;
    const auto same = std::find_if(
        existing.begin(), existing.end(), [&](const Value* value) { return value->layout == result->layout; });
    if (same == existing.end()) {
      sources.emplace(result, source);
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
