#include "weft/graph/analysis/node_order.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The gap between the numbers of two nodes. A node inserted there leaves most of the gap after itself, because nodes
/// are mostly inserted in order.
constexpr int64_t kRoom = int64_t{1} << 32;
constexpr int64_t kGapDivisor = 256;

} // namespace

NodeNumbers number_nodes(const Graph& graph) {
  NodeNumbers numbers;
  numbers.reserve(graph.size());
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    numbers.emplace(node, numbers.size());
  }
  return numbers;
}

NodeOrder::NodeOrder(Graph& graph) : writes_(graph) {
  numbers_.reserve(graph.size());
  renumber(graph);
}

void NodeOrder::renumber(const Graph& graph) {
  int64_t next = 0;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    numbers_[node] = next += kRoom;
  }
}

void NodeOrder::place(const Node* node) {
  const auto after = node->previous() == nullptr ? 0 : number(node->previous());
  const auto room = (node->next() == nullptr ? after + kRoom : number(node->next())) - after;
  if (room < 2) {
    renumber(node->graph());
  } else {
    numbers_[node] = after + std::max<int64_t>(room / kGapDivisor, 1);
  }
}

void NodeOrder::place_before(const Node* node) {
  std::vector<const Node*> unknown;
  for (const auto* each = node->previous(); each != nullptr && numbers_.count(each) == 0; each = each->previous()) {
    unknown.push_back(each);
  }
  const auto* known = unknown.empty() ? nullptr : unknown.back()->previous();
  auto next = known == nullptr ? 0 : number(known);
  const auto step = (number(node) - next) / (static_cast<int64_t>(unknown.size()) + 1);
  if (step == 0) {
    renumber(node->graph());
    return;
  }
  for (auto each = unknown.rbegin(); each != unknown.rend(); ++each) {
    numbers_[*each] = next += step;
  }
}

bool NodeOrder::is_written_between(const Value* value, int64_t from, int64_t to) const {
  const auto next = writes_.next_write(value, from, [this](const Node* node) { return number(node); });
  return next && *next < to;
}

} // namespace weft::graph
