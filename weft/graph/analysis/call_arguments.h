#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The arguments of an operator's call by the names of its schema. Absent arguments have the default.
///
///   CallArguments slice(node);      // aten::slice.Tensor(%x, 0, end=4)
///   slice.integer("step")           // 1: the schema's default
///   slice.size("end")               // 4
class CallArguments {
 public:
  /// The node must call an operator.
  explicit CallArguments(const Node& node) : node_(node) {}

  /// nullptr if the operator has no such argument, or if it is not a tensor.
  Value* tensor(std::string_view name) const;
  /// Empty if it is not a list of tensors.
  std::vector<Value*> tensors(std::string_view name) const;
  /// Nothing if it is not an integer, is known only when the program runs, or if the operator has no such argument.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  /// An integer, or an integer value as an expression of the program's symbols.
  std::optional<Size> size(std::string_view name) const;
  /// Whether the argument is given or has a default other than None.
  bool has(std::string_view name) const;
  std::optional<std::vector<int64_t>> integers(std::string_view name) const;

 private:
  const Argument* given(std::string_view name) const;
  std::optional<c10::IValue> constant(std::string_view name) const;

  const Node& node_;
};

} // namespace weft::graph
