#pragma once

#include "weft/graph/analysis/memory_writes.h"

namespace weft::graph {

/// The number of every node in the order of a graph.
using NodeNumbers = std::unordered_map<const Node*, size_t>;
NodeNumbers number_nodes(const Graph& graph);

/// The order of a graph's nodes as numbers, and the nodes that write to each memory, for passes that move nodes.
/// Queries do not walk the graph. A value that was added later counts as having its own memory.
class NodeOrder {
 public:
  explicit NodeOrder(Graph& graph);

  /// Greater for later nodes. The node must be in the order.
  int64_t number(const Node* node) const {
    return numbers_.at(node);
  }
  /// Adds or updates a node that was inserted or moved, at its current position.
  void place(const Node* node);
  /// Adds all nodes directly before this one that are not in the order yet.
  void place_before(const Node* node);
  /// Removes a node that is about to be erased.
  void forget(const Node* node) {
    numbers_.erase(node);
  }
  /// Whether the graph writes to memory. If so, the order is valid only for the values that existed when it was built.
  bool has_writes() const {
    return writes_.is_any_written();
  }
  /// Whether a node with a number strictly between the two writes to the value's memory.
  bool is_written_between(const Value* value, int64_t from, int64_t to) const;

 private:
  void renumber(const Graph& graph);

  std::unordered_map<const Node*, int64_t> numbers_;
  MemoryWrites writes_;
};

} // namespace weft::graph
