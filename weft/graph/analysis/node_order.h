#pragma once

#include "weft/graph/analysis/memory_writes.h"

namespace weft::graph {

/// The number of every node in the order of a graph.
using NodeNumbers = std::unordered_map<const Node*, size_t>;
NodeNumbers number_nodes(const Graph& graph);

/// Where the nodes of a graph stand, by number, and who writes to which memory, for passes that move nodes: what is asked
/// takes no walk over the graph. Values that came later are taken for memory of their own.
class NodeOrder {
 public:
  explicit NodeOrder(Graph& graph);

  /// Greater behind; of a node of the graph that the order knows.
  int64_t number(const Node* node) const {
    return numbers_.at(node);
  }
  /// A node that was inserted or moved, by where it stands now.
  void place(const Node* node);
  /// All nodes just before this one that the order does not know.
  void place_before(const Node* node);
  /// A node that is about to be erased.
  void forget(const Node* node) {
    numbers_.erase(node);
  }
  /// Whether anything is written to: then an order is of the values that there were when it was made.
  bool has_writes() const {
    return writes_.is_any_written();
  }
  /// Whether a node whose number is between the two, neither of them included, writes to the value's memory.
  bool is_written_between(const Value* value, int64_t from, int64_t to) const;

 private:
  void renumber(const Graph& graph);

  std::unordered_map<const Node*, int64_t> numbers_;
  MemoryWrites writes_;
};

} // namespace weft::graph
