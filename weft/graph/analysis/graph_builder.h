#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// An absent argument: the operator's default applies.
struct Absent {};

/// Adds calls to a graph in order, before a node or at the end.
///
///   GraphBuilder build(graph);
///   auto* part = build.call("aten::narrow", {x, 1, Size(0), length}, contiguous_type(dtype, sizes));
class GraphBuilder {
 public:
  /// An argument: a value, a constant, a size or sizes (which nodes compute if they are no numbers), or several values.
  using Argument = std::variant<Value*, c10::IValue, Size, Sizes, std::vector<Value*>, Absent>;

  explicit GraphBuilder(Graph& graph, Node* before = nullptr) : graph_(graph), before_(before) {}

  /// The origin of the new nodes, and the name of their values unless the operator gives the name.
  void set_origin(const Origin& origin) {
    origin_ = origin;
  }
  /// Declares the value that holds a symbol.
  void define(const std::string& symbol, Value* value) {
    numbers_[symbol] = value;
  }
  bool knows(const Size& size) const;

  /// Arguments by position, of "aten::narrow" or "aten::add.Tensor"; arguments left out at the end are absent.
  Node* insert(const std::string& op, const std::vector<Argument>& arguments, OutputTypes outputs);
  Value* call(const std::string& op, const std::vector<Argument>& arguments, TensorType type, std::string name = {});
  /// For an operator that returns a list: one value per type.
  std::vector<Value*> list(
      const std::string& op,
      const std::vector<Argument>& arguments,
      const std::vector<TensorType>& types);

  /// The value of a size that is an expression. Equal sizes are computed once.
  Value* number(const Size& size);

 private:
  const c10::OperatorHandle& operator_named(const std::string& op);
  graph::Argument argument(const Argument& given, std::vector<Value*>& operands);
  graph::Argument size_argument(const Size& size, std::vector<Value*>& operands);

  Graph& graph_;
  Node* before_; // nodes are added before this one; at the end if null
  Origin origin_;
  std::unordered_map<std::string, Value*> numbers_;                    // by the size's text
  std::vector<std::pair<std::string, c10::OperatorHandle>> operators_; // cached, because few operators are called often
};

/// The operator of this full name ("aten::add.Tensor"); raises if there is none.
c10::OperatorHandle find_operator(const std::string& full_name);

} // namespace weft::graph
