#include "weft/graph/passes/hoist_collectives.h"

#include "weft/graph/passes/effects.h"
#include "weft/graph/passes/memory_sharing.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The nodes of a graph in order, by number, and who writes to which memory.
class Order {
 public:
  explicit Order(Graph& graph) : graph_(graph), memory_(graph) {
    for (auto* node = graph.first(); node != nullptr; node = node->next()) {
      for (const auto* value : written_operands(*node)) {
        writes_[memory_.memory_of(value)].push_back(nodes_.size());
      }
      numbers_.emplace(node, nodes_.size());
      nodes_.push_back(node);
    }
  }

  const std::vector<Node*>& nodes() const {
    return nodes_;
  }
  size_t number(const Node* node) const {
    return numbers_.at(node);
  }

  /// The first node behind `number` that writes to the value's memory; the number of nodes where there is none.
  size_t next_write(const Value* value, size_t number) const {
    const auto found = writes_.find(memory_.memory_of(value));
    if (found == writes_.end()) {
      return nodes_.size();
    }
    const auto next = std::upper_bound(found->second.begin(), found->second.end(), number);
    return next == found->second.end() ? nodes_.size() : *next;
  }
  /// The last node before `number` that writes to the value's memory; -1 where there is none.
  int64_t last_write(const Value* value, size_t number) const {
    const auto found = writes_.find(memory_.memory_of(value));
    if (found == writes_.end()) {
      return -1;
    }
    const auto next = std::lower_bound(found->second.begin(), found->second.end(), number);
    return next == found->second.begin() ? -1 : static_cast<int64_t>(*std::prev(next));
  }

  /// Puts the nodes into this order; returns whether it is another.
  bool rearrange(const std::vector<Node*>& nodes) {
    if (nodes == nodes_) {
      return false;
    }
    for (auto* node : nodes) {
      graph_.move_before(node, nullptr);
    }
    return true;
  }

 private:
  Graph& graph_;
  MemorySharing memory_;
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, size_t> numbers_;
  std::unordered_map<const Value*, std::vector<size_t>> writes_; // by memory, ascending
};

/// The node that a wait can come just before.
size_t latest_place(const Order& order, const Node& wait, size_t number) {
  auto place = order.nodes().size();
  for (const auto& use : wait.output()->uses()) {
    place = std::min(place, order.number(use.node));
  }
  const auto& start = *wait.operand(0)->producer();
  place = std::min(place, order.next_write(wait.operand(0), number));
  for (size_t i = 0; i < start.operand_count(); ++i) {
    place = std::min(place, order.next_write(start.operand(i), number));
  }
  return place;
}

/// Whether what was started is only waited for: any other use may mean that it has arrived.
bool is_only_awaited(const Value& value) {
  return std::all_of(
      value.uses().begin(), value.uses().end(), [](const Value::Use& use) { return waits_for_collective(*use.node); });
}

bool wait_late(Graph& graph, size_t in_flight) {
  Order order(graph);
  const auto& nodes = order.nodes();
  std::vector<size_t> starts;
  std::unordered_map<const Node*, size_t> turns;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (starts_collective(*nodes[i])) {
      turns.emplace(nodes[i], starts.size());
      starts.push_back(i);
    }
  }
  std::vector<std::vector<Node*>> before(nodes.size());
  std::vector<bool> is_moved(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& node = *nodes[i];
    if (!waits_for_collective(node) || node.output() == nullptr || node.output()->uses().empty()) {
      continue;
    }
    const auto* start = node.operand(0)->producer();
    if (start == nullptr || !starts_collective(*start) || !is_only_awaited(*node.operand(0))) {
      continue;
    }
    auto place = latest_place(order, node, i);
    // Not behind the start that would be one too many under way.
    const auto beyond = turns.at(start) + in_flight;
    if (beyond < starts.size() && starts[beyond] > i) {
      place = std::min(place, starts[beyond]);
    }
    before[place].push_back(nodes[i]);
    is_moved[i] = true;
  }
  std::vector<Node*> arranged;
  for (size_t i = 0; i < nodes.size(); ++i) {
    arranged.insert(arranged.end(), before[i].begin(), before[i].end());
    if (!is_moved[i]) {
      arranged.push_back(nodes[i]);
    }
  }
  return order.rearrange(arranged);
}

/// The last wait for what a node starts; -1 where something of it is not awaited.
int64_t last_wait(const Order& order, const Node& start) {
  int64_t last = -1;
  for (const auto* output : start.outputs()) {
    if (output == nullptr || output->uses().empty() || !is_only_awaited(*output)) {
      return -1;
    }
    for (const auto& use : output->uses()) {
      last = std::max(last, static_cast<int64_t>(order.number(use.node)));
    }
  }
  return last;
}

bool start_early(Graph& graph, size_t in_flight) {
  Order order(graph);
  const auto& nodes = order.nodes();
  // Behind which node each start comes; the first place is before all nodes.
  std::vector<std::vector<Node*>> behind(nodes.size() + 1);
  std::unordered_map<const Node*, int64_t> places;
  std::vector<const Node*> started;
  int64_t previous = -1;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& node = *nodes[i];
    if (!starts_collective(node)) {
      previous = communicates(node) ? static_cast<int64_t>(i) : previous;
      continue;
    }
    // Starts behind the same node stand in their order: none comes before the one ahead of it.
    auto place = previous;
    for (size_t operand = 0; operand < node.operand_count(); ++operand) {
      const auto* producer = node.operand(operand)->producer();
      if (producer != nullptr) {
        const auto started_there = places.find(producer);
        const auto made =
            started_there != places.end() ? started_there->second : static_cast<int64_t>(order.number(producer));
        place = std::max(place, made);
      }
      place = std::max(place, order.last_write(node.operand(operand), i));
    }
    if (started.size() >= in_flight) {
      const auto arrived = last_wait(order, *started[started.size() - in_flight]);
      place = arrived < static_cast<int64_t>(i) ? std::max(place, arrived) : place;
    }
    behind[place + 1].push_back(nodes[i]);
    places.emplace(&node, place);
    started.push_back(&node);
    previous = place;
  }
  std::vector<Node*> arranged(behind[0]);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (places.count(nodes[i]) == 0) {
      arranged.push_back(nodes[i]);
    }
    arranged.insert(arranged.end(), behind[i + 1].begin(), behind[i + 1].end());
  }
  return order.rearrange(arranged);
}

} // namespace

bool hoist_collectives(Graph& graph, size_t in_flight) {
  bool changed = false;
  // A start that came forward leaves a wait room to fall back behind it. Starts move forward only and waits back only, so
  // there is an end; most programs are done at once.
  while (true) {
    const bool waits_moved = wait_late(graph, in_flight);
    const bool starts_moved = start_early(graph, in_flight);
    if (!waits_moved && !starts_moved) {
      return changed;
    }
    changed = true;
  }
}

} // namespace weft::graph
