#pragma once

#include "weft/graph/ir/value_table.h"

namespace weft::graph {

/// Which operators are taken to give back an operand, or a view of it, though their schema does not say so.
enum class Forwarding : uint8_t {
  Possible, // all that are made of others: for passes that move nodes, which nobody checks afterwards
  Known,    // those that do (schema_gaps.h)
};

/// Which values of a graph may lie in the same memory. The one place that says so; MemoryWrites adds who writes to it.
///
///   %view = view(%x), %add = add_(%view, 1): all three share memory
class MemorySharing {
 public:
  /// Of no node yet: they are added as they are visited.
  explicit MemorySharing(Forwarding forwarding) : forwarding_(forwarding) {}
  /// Of all nodes of a graph.
  explicit MemorySharing(const Graph& graph, Forwarding forwarding);

  /// The node's outputs share memory with the operands that it gives back or gives views of.
  void add(const Node& node);

  /// One of the values that share the value's memory, the same for all of them.
  const Value* memory_of(const Value* value) const;
  /// All of them, beginning with memory_of.
  std::vector<const Value*> values_sharing(const Value* value) const;

 private:
  void join(const Value* a, const Value* b);
  /// One by one where there are as many outputs as operands, as of operators on lists; else all with all.
  void join_all(c10::ArrayRef<Value*> outputs, const std::vector<Value*>& operands);

  Forwarding forwarding_;
  mutable ValueTable<const Value*> parents_; // none: it is what memory_of gives
  ValueTable<const Value*> next_;            // of those that share memory
  ValueTable<const Value*> last_;            // of the list that begins with a memory; none: itself
};

/// The tensors in an argument of a node: one, those of a list, or none.
std::vector<Value*> operands_of(const Node& node, size_t argument);

/// The positions of the arguments that a node writes to: those that its schema marks, and those that it should
/// (schema_gaps.h). `detach_` writes to none: it changes what is known of the tensor alone.
std::vector<size_t> written_arguments(const Node& node);
/// The tensors there.
std::vector<Value*> written_operands(const Node& node);
/// Whether any node writes to any.
bool writes_to_values(const Graph& graph);

} // namespace weft::graph
