#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The arguments of an operator's call by the names of its schema, positional or not, left out or not.
///
///   CallArguments slice(node);      // aten::slice.Tensor(%x, 0, end=4)
///   slice.integer("step")           // 1: the schema's default
///   slice.size("end")               // 4
class CallArguments {
 public:
  /// Of a node that calls an operator.
  explicit CallArguments(const Node& node) : node_(node) {}

  /// nullptr where the operator has no such argument, or it is no tensor.
  Value* tensor(std::string_view name) const;
  /// Empty where it is no list of tensors.
  std::vector<Value*> tensors(std::string_view name) const;
  /// Nothing where it is none, is only known when the program runs, or the operator has no such argument.
  std::optional<int64_t> integer(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  /// An integer, or what one is of the program's symbols.
  std::optional<Size> size(std::string_view name) const;
  /// Whether it is given or has a default other than None.
  bool has(std::string_view name) const;
  std::optional<std::vector<int64_t>> integers(std::string_view name) const;

 private:
  const Argument* given(std::string_view name) const;
  std::optional<c10::IValue> constant(std::string_view name) const;

  const Node& node_;
};

} // namespace weft::graph
