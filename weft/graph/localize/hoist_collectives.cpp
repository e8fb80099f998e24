#include "weft/graph/localize/hoist_collectives.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/memory_writes.h"
#include "weft/graph/ir/value_table.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The nodes of a graph in order, their numbers in that order, and their writes to memory.
class Order {
 public:
  Order(Graph& graph, const MemoryWrites& writes) : graph_(graph), writes_(writes), numbers_(graph) {
    nodes_.reserve(graph.size());
    for (auto* node = graph.first(); node != nullptr; node = node->next()) {
      numbers_[node] = nodes_.size();
      nodes_.push_back(node);
    }
  }

  const std::vector<Node*>& nodes() const {
    return nodes_;
  }
  size_t number(const Node* node) const {
    return numbers_.get(node);
  }

  /// The first node behind `number` that writes to the value's memory; the number of nodes where there is none.
  size_t next_write(const Value* value, size_t number) const {
    const auto number_of = [this](const Node* node) { return this->number(node); };
    return writes_.next_write(value, number, number_of).value_or(nodes_.size());
  }
  /// The number behind that of the last node before `number` that writes to the value's memory; 0 where there is none.
  size_t behind_last_write(const Value* value, size_t number) const {
    const auto number_of = [this](const Node* node) { return this->number(node); };
    const auto last = writes_.last_write(value, number, number_of);
    return last ? *last + 1 : 0;
  }

  /// Puts the nodes into this order; returns whether that changes anything.
  bool rearrange(const std::vector<Node*>& nodes) {
    if (nodes == nodes_) {
      return false;
    }
    // Most nodes are at their new place already.
    auto* following = graph_.first();
    for (auto* node : nodes) {
      if (node == following) {
        following = following->next();
      } else {
        graph_.move_before(node, following);
      }
    }
    return true;
  }

 private:
  Graph& graph_;
  const MemoryWrites& writes_;
  std::vector<Node*> nodes_;
  NodeTable<size_t> numbers_;
};

/// A node that is to be moved just before another one, both by number.
struct Moved {
  size_t node;
  size_t before;
};

/// The nodes after the moves. Several nodes that move before the same one keep their order.
std::vector<Node*> rearranged(const std::vector<Node*>& nodes, std::vector<Moved> moved) {
  std::vector<bool> is_moved(nodes.size());
  for (const auto& each : moved) {
    is_moved[each.node] = true;
  }
  std::stable_sort(moved.begin(), moved.end(), [](const Moved& a, const Moved& b) { return a.before < b.before; });
  std::vector<Node*> result;
  result.reserve(nodes.size());
  auto next = moved.begin();
  for (size_t i = 0; i <= nodes.size(); ++i) {
    for (; next != moved.end() && next->before == i; ++next) {
      result.push_back(nodes[next->node]);
    }
    if (i < nodes.size() && !is_moved[i]) {
      result.push_back(nodes[i]);
    }
  }
  return result;
}

/// The last node that a wait can be moved just before.
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

/// Whether waits are the only uses of a started collective's result. Any other use may rely on an earlier wait.
bool is_only_awaited(const Value& value) {
  return std::all_of(
      value.uses().begin(), value.uses().end(), [](const Value::Use& use) { return waits_for_collective(*use.node); });
}

bool wait_late(Graph& graph, const MemoryWrites& writes, size_t in_flight) {
  Order order(graph, writes);
  const auto& nodes = order.nodes();
  std::vector<size_t> starts;
  NodeTable<size_t> start_numbers(graph); // counted from one; 0 for other nodes
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (starts_collective(*nodes[i])) {
      starts.push_back(i);
      start_numbers[nodes[i]] = starts.size();
    }
  }
  std::vector<Moved> moved;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& node = *nodes[i];
    if (!waits_for_collective(node) || node.output() == nullptr || node.output()->uses().empty()) {
      continue;
    }
    const auto* start = node.operand(0)->producer();
    if (start == nullptr || start_numbers.get(start) == 0 || !is_only_awaited(*node.operand(0))) {
      continue;
    }
    auto place = latest_place(order, node, i);
    // The wait stays before the start with which more than `in_flight` collectives would be under way.
    const auto beyond = start_numbers.get(start) - 1 + in_flight;
    if (beyond < starts.size() && starts[beyond] > i) {
      place = std::min(place, starts[beyond]);
    }
    moved.push_back({i, place});
  }
  return order.rearrange(rearranged(nodes, std::move(moved)));
}

/// The number of the last wait for a collective; -1 where one of its results is not only waited for.
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

bool start_early(Graph& graph, const MemoryWrites& writes, size_t in_flight) {
  Order order(graph, writes);
  const auto& nodes = order.nodes();
  std::vector<Moved> moved;
  NodeTable<size_t> places(graph); // the node before which each start is moved, counted from one
  std::vector<const Node*> started;
  size_t previous = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& node = *nodes[i];
    if (!starts_collective(node)) {
      previous = communicates(node) ? i + 1 : previous;
      continue;
    }
    // Starts that move before the same node keep their order, so that no start passes the previous one.
    auto place = previous;
    for (size_t operand = 0; operand < node.operand_count(); ++operand) {
      if (const auto* producer = node.operand(operand)->producer()) {
        const auto started_there = places.get(producer);
        place = std::max(place, started_there != 0 ? started_there - 1 : order.number(producer) + 1);
      }
      place = std::max(place, order.behind_last_write(node.operand(operand), i));
    }
    if (started.size() >= in_flight) {
      const auto arrived = last_wait(order, *started[started.size() - in_flight]);
      place = arrived < static_cast<int64_t>(i) ? std::max(place, static_cast<size_t>(arrived + 1)) : place;
    }
    moved.push_back({i, place});
    places[&node] = place + 1;
    started.push_back(&node);
    previous = place;
  }
  return order.rearrange(rearranged(nodes, std::move(moved)));
}

} // namespace

bool hoist_collectives(Graph& graph, size_t in_flight) {
  bool changed = false;
  const MemoryWrites writes(graph); // stays valid, because nodes that write keep their order
  // When a start has moved to the front, an earlier wait may move to the back, behind it. Starts only move to the front
  // and waits only to the back, so that the loop ends; most programs need one round.
  while (true) {
    const bool waits_moved = wait_late(graph, writes, in_flight);
    const bool starts_moved = start_early(graph, writes, in_flight);
    if (!waits_moved && !starts_moved) {
      return changed;
    }
    changed = true;
  }
}

} // namespace weft::graph
