#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// An argument for which the operator's default holds.
struct Absent {};

/// Adds calls to a graph, one after the other, before a node or at its end.
///
///   GraphBuilder build(graph);
///   auto* part = build.call("aten::narrow", {x, 1, Size(0), length}, contiguous_type(dtype, sizes));
class GraphBuilder {
 public:
  /// What an argument may be: a value, a constant, a size or sizes (computed by nodes where they are no numbers), values.
  using Argument = std::variant<Value*, c10::IValue, Size, Sizes, std::vector<Value*>, Absent>;

  explicit GraphBuilder(Graph& graph, Node* before = nullptr) : graph_(graph), before_(before) {}

  /// Where new nodes come from, and what their values are called unless an operator names them.
  void set_origin(const Origin& origin) {
    origin_ = origin;
  }
  /// The value that a symbol is known by.
  void define(const std::string& symbol, Value* value) {
    numbers_[symbol] = value;
  }
  bool knows(const Size& size) const;

  /// Arguments by position, of "aten::narrow" or "aten::add.Tensor"; those left out are absent.
  Node* insert(const std::string& op, const std::vector<Argument>& arguments, OutputTypes outputs);
  Value* call(const std::string& op, const std::vector<Argument>& arguments, TensorType type, std::string name = {});
  /// As many values as there are types, from an operator that returns a list.
  std::vector<Value*> list(
      const std::string& op,
      const std::vector<Argument>& arguments,
      const std::vector<TensorType>& types);

  /// The node of a size that is no number. Equal sizes are computed once.
  Value* number(const Size& size);

 private:
  const c10::OperatorHandle& operator_named(const std::string& op);
  graph::Argument argument(const Argument& given, std::vector<Value*>& operands);
  graph::Argument size_argument(const Size& size, std::vector<Value*>& operands);

  Graph& graph_;
  Node* before_; // where nodes are added; none: at the end
  Origin origin_;
  std::unordered_map<std::string, Value*> numbers_;                    // by the size's text
  std::vector<std::pair<std::string, c10::OperatorHandle>> operators_; // a few, looked up again and again
};

/// The operator of this full name ("aten::add.Tensor"); raises where there is none.
c10::OperatorHandle find_operator(const std::string& full_name);

} // namespace weft::graph
