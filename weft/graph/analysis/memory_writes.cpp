#include "weft/graph/analysis/memory_writes.h"

#include <algorithm>

namespace weft::graph {

NodeNumbers number_nodes(const Graph& graph) {
  NodeNumbers numbers;
  numbers.reserve(graph.size());
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    numbers.emplace(node, numbers.size());
  }
  return numbers;
}

MemoryWrites::MemoryWrites(const Graph& graph, const NodeNumbers& numbers) {
  std::vector<std::pair<const Value*, size_t>> written;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    for (const auto* value : written_operands(*node)) {
      written.emplace_back(value, numbers.at(node));
    }
  }
  if (written.empty()) {
    return;
  }
  memory_.emplace(graph);
  for (const auto& [value, number] : written) {
    of_memory_[memory_->memory_of(value)].push_back(number);
  }
}

const std::vector<size_t>* MemoryWrites::writes_of(const Value* value) const {
  const auto found = memory_ ? of_memory_.find(memory_->memory_of(value)) : of_memory_.end();
  return found == of_memory_.end() ? nullptr : &found->second;
}

std::optional<size_t> MemoryWrites::next_write(const Value* value, size_t behind) const {
  const auto* writes = writes_of(value);
  if (writes == nullptr) {
    return std::nullopt;
  }
  const auto next = std::upper_bound(writes->begin(), writes->end(), behind);
  return next == writes->end() ? std::nullopt : std::optional(*next);
}

std::optional<size_t> MemoryWrites::last_write(const Value* value, size_t before) const {
  const auto* writes = writes_of(value);
  if (writes == nullptr) {
    return std::nullopt;
  }
  const auto next = std::lower_bound(writes->begin(), writes->end(), before);
  return next == writes->begin() ? std::nullopt : std::optional(*std::prev(next));
}

} // namespace weft::graph
