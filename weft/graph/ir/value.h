#pragma once

#include "weft/core/layout.h"
#include "weft/graph/ir/type.h"

namespace weft::graph {

class Node;

/// A tensor or a number of a program: an input of the graph, or an output of a node.
class Value {
 public:
  /// A use of the value: operand `operand` of `node`.
  struct Use {
    Node* node;
    size_t operand;
  };
  using Uses = c10::SmallVector<Use, 1>;

  const std::string& name() const {
    return *name_;
  }
  /// The id of the value, unique among all values that its graph ever had. It indexes ValueTable (value_table.h).
  size_t id() const {
    return id_;
  }
  /// nullptr for an input of the graph.
  Node* producer() const {
    return producer_;
  }
  const Uses& uses() const {
    return uses_;
  }
  bool is_tensor() const {
    return std::holds_alternative<TensorType>(type);
  }
  const TensorType& tensor() const {
    return std::get<TensorType>(type);
  }

  Type type;
  /// The layout of a global tensor on the program's mesh. None in a program that is not sharded, in the program of one
  /// rank, and for a number.
  std::optional<Layout> layout;

 private:
  friend class Graph;
  friend class Node;
  Value(size_t id, const std::string* name, Type type_, Node* producer)
      : type(std::move(type_)), id_(id), name_(name), producer_(producer) {}

  size_t id_;
  const std::string* name_; // owned by the graph's name table
  Node* producer_;
  Uses uses_;
};

} // namespace weft::graph
