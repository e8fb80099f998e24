#pragma once

#include "weft/graph/ir/value_table.h"

namespace weft::graph {

/// Of which operators it is taken to be so that they give back an operand, where their schema does not tell.
enum class Forwarding : uint8_t {
  Possible, // of all that are made of others
  Known,    // of those that do
};

/// Which values of a graph may lie in the same memory, and which memory is written to.
///
///   %view = view(%x), %add = add_(%view, 1): all three share memory, and it is written to
class MemorySharing {
 public:
  explicit MemorySharing(const Graph& graph, Forwarding forwarding = Forwarding::Possible);

  /// One of the values that share the value's memory, the same for all of them.
  const Value* memory_of(const Value* value) const;
  /// Whether a node of the graph writes to the value's memory.
  bool is_written(const Value* value) const {
    return is_any_written_ && written_.contains(memory_of(value));
  }
  bool is_any_written() const {
    return is_any_written_;
  }

 private:
  void join(const Value* a, const Value* b);

  mutable ValueTable<const Value*> parents_; // none: the first of those that share its memory
  ValueSet written_;
  bool is_any_written_ = false;
};

/// The operands that a node writes to. `detach_` writes to none: it changes what is known of the tensor alone.
std::vector<const Value*> written_operands(const Node& node);
/// Whether any node does.
bool writes_to_values(const Graph& graph);

} // namespace weft::graph
