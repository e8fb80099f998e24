#include "weft/graph/analysis/memory_writes.h"

namespace weft::graph {

MemoryWrites::MemoryWrites(const Graph& graph, Forwarding forwarding) {
  std::vector<std::pair<const Value*, const Node*>> writes;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    for (const auto* value : written_operands(*node)) {
      writes.emplace_back(value, node);
    }
  }
  if (writes.empty()) {
    return;
  }
  sharing_.emplace(graph, forwarding);
  for (const auto& [value, node] : writes) {
    writers_[sharing_->memory_of(value)].push_back(node);
  }
}

c10::ArrayRef<const Node*> MemoryWrites::writers_of(const Value* value) const {
  if (!sharing_) {
    return {};
  }
  const auto found = writers_.find(sharing_->memory_of(value));
  return found == writers_.end() ? c10::ArrayRef<const Node*>() : found->second;
}

} // namespace weft::graph
