#include "weft/graph/passes/node_order.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// Room between two nodes for those that are inserted there.
constexpr int64_t kRoom = int64_t{1} << 24;

} // namespace

NodeOrder::NodeOrder(Graph& graph) {
  numbers_.reserve(graph.size());
  std::vector<std::pair<const Value*, int64_t>> writes;
  int64_t next = kRoom;
  for (const auto* node = graph.first(); node != nullptr; node = node->next(), next += kRoom) {
    numbers_.emplace(node, next);
    for (const auto* value : written_operands(*node)) {
      writes.emplace_back(value, next);
    }
  }
  if (!writes.empty()) {
    memory_.emplace(graph);
    for (const auto& [value, number] : writes) {
      writes_[memory_->memory_of(value)].push_back(number);
    }
  }
}

void NodeOrder::place(const Node* node) {
  const auto* previous = node->previous();
  const auto after = previous == nullptr ? 0 : number(previous);
  TORCH_INTERNAL_ASSERT(node->next() == nullptr || after + 1 < number(node->next()), "no room to insert nodes");
  numbers_[node] = after + 1;
}

void NodeOrder::place_before(const Node* node) {
  std::vector<const Node*> unknown;
  for (const auto* each = node->previous(); each != nullptr && numbers_.count(each) == 0; each = each->previous()) {
    unknown.push_back(each);
  }
  const auto* known = unknown.empty() ? nullptr : unknown.back()->previous();
  auto next = known == nullptr ? 0 : number(known);
  for (auto each = unknown.rbegin(); each != unknown.rend(); ++each) {
    numbers_[*each] = ++next;
  }
}

bool NodeOrder::is_written_between(const Value* value, int64_t from, int64_t to) const {
  if (!memory_) {
    return false;
  }
  const auto found = writes_.find(memory_->memory_of(value));
  if (found == writes_.end()) {
    return false;
  }
  const auto next = std::upper_bound(found->second.begin(), found->second.end(), from);
  return next != found->second.end() && *next < to;
}

} // namespace weft::graph
