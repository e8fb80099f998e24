#pragma once

#include "weft/graph/analysis/memory_sharing.h"

#include <algorithm>
#include <optional>

namespace weft::graph {

/// Which nodes of a graph write to which memory. For a graph without writes it costs one test per node.
///
///   %view = view(%x), %add = add_(%view, 1): %x, %view and %add are written to, by the second node
class MemoryWrites {
 public:
  explicit MemoryWrites(const Graph& graph, Forwarding forwarding = Forwarding::Possible);

  bool is_any_written() const {
    return sharing_.has_value();
  }
  /// Whether a node writes to the value's memory.
  bool is_written(const Value* value) const {
    return !writers_of(value).empty();
  }
  /// As in MemorySharing. In a graph without writes every value has its own memory, because sharing does not matter
  /// there.
  const Value* memory_of(const Value* value) const {
    return sharing_ ? sharing_->memory_of(value) : value;
  }

  /// The number of the first node after a position that writes to the value's memory; nothing if there is none.
  /// `number_of(node)` numbers the nodes in their order. Nodes may have been moved since, but not relative to the nodes
  /// that write.
  template <class Number, class NumberOf>
  std::optional<Number> next_write(const Value* value, Number behind, const NumberOf& number_of) const {
    const auto writers = writers_of(value);
    const auto* const next = std::partition_point(
        writers.begin(), writers.end(), [&](const Node* writer) { return number_of(writer) <= behind; });
    return next == writers.end() ? std::nullopt : std::optional<Number>(number_of(*next));
  }
  /// The same for the last node before a position.
  template <class Number, class NumberOf>
  std::optional<Number> last_write(const Value* value, Number before, const NumberOf& number_of) const {
    const auto writers = writers_of(value);
    const auto* const next = std::partition_point(
        writers.begin(), writers.end(), [&](const Node* writer) { return number_of(writer) < before; });
    return next == writers.begin() ? std::nullopt : std::optional<Number>(number_of(*std::prev(next)));
  }

 private:
  /// In the order of the graph.
  c10::ArrayRef<const Node*> writers_of(const Value* value) const;

  std::optional<MemorySharing> sharing_;                               // only if the graph writes to memory
  std::unordered_map<const Value*, std::vector<const Node*>> writers_; // by memory
};

} // namespace weft::graph
