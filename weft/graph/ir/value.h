#pragma once

#include "weft/core/layout.h"
#include "weft/graph/ir/type.h"

namespace weft::graph {

class Node;

/// A tensor or a number that a program computes: an input of the graph, or what a node gives.
class Value {
 public:
  /// A place where the value is used: operand `operand` of `node`.
  struct Use {
    Node* node;
    size_t operand;
  };
  using Uses = c10::SmallVector<Use, 1>;

  const std::string& name() const {
    return *name_;
  }
  /// The number of the value among those that its graph ever had, by which tables of values go (value_table.h).
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
  /// How the tensor lies on the program's mesh. Without one the value is as it is: a whole program's, or a number.
  std::optional<Layout> layout;

 private:
  friend class Graph;
  friend class Node;
  Value(size_t id, const std::string* name, Type type_, Node* producer)
      : type(std::move(type_)), id_(id), name_(name), producer_(producer) {}

  size_t id_;
  const std::string* name_; // of the graph's names
  Node* producer_;
  Uses uses_;
};

} // namespace weft::graph
