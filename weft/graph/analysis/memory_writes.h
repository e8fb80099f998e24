#pragma once

#include "weft/graph/analysis/memory_sharing.h"

#include <optional>

namespace weft::graph {

/// The number of every node in the order of a graph.
using NodeNumbers = std::unordered_map<const Node*, size_t>;
NodeNumbers number_nodes(const Graph& graph);

/// Which nodes write to which memory. Costs nothing in a graph without writes.
class MemoryWrites {
 public:
  MemoryWrites(const Graph& graph, const NodeNumbers& numbers);

  /// The first node behind one that writes to the value's memory; nothing where there is none.
  std::optional<size_t> next_write(const Value* value, size_t behind) const;
  /// The last node before one that does.
  std::optional<size_t> last_write(const Value* value, size_t before) const;

 private:
  const std::vector<size_t>* writes_of(const Value* value) const;

  std::optional<MemorySharing> memory_;                             // where anything is written to
  std::unordered_map<const Value*, std::vector<size_t>> of_memory_; // ascending
};

} // namespace weft::graph
