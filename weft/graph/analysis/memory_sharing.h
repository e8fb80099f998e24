#pragma once

#include "weft/graph/ir/value_table.h"

namespace weft::graph {

/// Which operators are assumed to return an operand or a view of it although their schema does not say so.
enum class Forwarding : uint8_t {
  Possible, // all composite ones, for passes that move nodes without another check
  Known,    // those that are known to do so (schema_gaps.h)
};

/// Which values of a graph may share memory. All passes ask this class; MemoryWrites adds the nodes that write to the
/// memory.
///
///   %view = view(%x), %add = add_(%view, 1): all three share memory
class MemorySharing {
 public:
  /// Contains no nodes; add() adds them as a walk visits them.
  explicit MemorySharing(Forwarding forwarding) : forwarding_(forwarding) {}
  /// Contains all nodes of a graph.
  explicit MemorySharing(const Graph& graph, Forwarding forwarding);

  /// The node's outputs share memory with the operands that it returns or returns views of.
  void add(const Node& node);

  /// The representative of all values that share memory with this one.
  const Value* memory_of(const Value* value) const;
  /// All values that share memory, beginning with memory_of.
  std::vector<const Value*> values_sharing(const Value* value) const;

 private:
  void join(const Value* a, const Value* b);
  /// Pairs outputs and operands if there are as many of both, as for operators on lists; otherwise joins all of them.
  void join_all(c10::ArrayRef<Value*> outputs, const std::vector<Value*>& operands);

  Forwarding forwarding_;
  mutable ValueTable<const Value*> parents_; // null for a representative
  ValueTable<const Value*> next_;            // the linked list of the values that share memory
  ValueTable<const Value*> last_;            // the end of the representative's list; null if it is alone
};

/// The tensors in an argument of a node: one, the elements of a list, or none.
std::vector<Value*> operands_of(const Node& node, size_t argument);

/// The positions of the arguments that a node writes to: those that its schema marks, and those that the schema misses
/// (schema_gaps.h). `detach_` writes to none, because it changes only the tensor's metadata.
std::vector<size_t> written_arguments(const Node& node);
/// The tensors at these positions.
std::vector<Value*> written_operands(const Node& node);
/// Whether any node writes to a tensor.
bool writes_to_values(const Graph& graph);

} // namespace weft::graph
