#pragma once

#include "weft/graph/ir/graph.h"

#include <unordered_map>

namespace weft::graph {

/// Which values of a graph may lie in the same memory, and which memory is written to. What a schema does not tell of an
/// operator that may give back its operand is taken to be so.
///
///   %view = view(%x), %add = add_(%view, 1): all three share memory, and it is written to
class MemorySharing {
 public:
  explicit MemorySharing(const Graph& graph);

  /// One of the values that share the value's memory, the same for all of them.
  const Value* memory_of(const Value* value) const;
  /// Whether a node of the graph writes to the value's memory.
  bool is_written(const Value* value) const {
    return written_.count(memory_of(value)) > 0;
  }

 private:
  void join(const Value* a, const Value* b);

  mutable std::unordered_map<const Value*, const Value*> parents_;
  std::unordered_set<const Value*> written_;
};

/// The operands that a node writes to. `detach_` writes to none: it changes what is known of the tensor alone.
std::vector<const Value*> written_operands(const Node& node);

} // namespace weft::graph
