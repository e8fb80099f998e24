#pragma once

#include "python/bindings/bindings.h"
#include "weft/graph/ir/program.h"
#include "weft/graph/overlap/overlap_decision.h"

namespace weft::python {

/// A tensor or a number of an FxProgram, by the id of its value.
struct FxValue {
  size_t id;
};

/// A node of a program that a pass has changed.
struct FxNode {
  size_t id = 0;
  py::dict replaced; // of a node that was there before: by the ids of operands, the values that are there instead
  std::string op;    // of a new node: "aten::mm"
  std::string overload;
  py::tuple args;
  py::dict kwargs;
  std::string made_for; // the fx node that it replaces a part of
  std::vector<std::optional<FxValue>> outputs;
  bool is_list = false; // its outputs are the elements of what it returns
};

/// An fx graph as a program of one rank, for passes. Python reads the fx nodes in order, tells each of them, lets a pass run
/// and reads the nodes back. A type is (dtype, sizes, strides, device) of a tensor, or ("int", expression) of a number; a
/// size is an integer, or an expression as sympy.srepr writes it; None is what passes do not know.
class FxProgram {
 public:
  /// The number that a symbol of expressions stands for, where it is known.
  void add_symbol(const std::string& name, int64_t hint);
  FxValue add_input(const std::string& name, py::handle type);

  struct Called {
    size_t id;
    py::list results; // per result a value, a list of values, or None
  };
  /// A call: an operator ("aten::mm", ""), or a function of numbers ("_operator.mul"). Arguments are values and
  /// constants. `returns` has a type, a list of types or None for each result, and `names` those of their values. A call
  /// that passes do not know becomes an unknown_call.
  Called call(
      const std::string& op,
      const std::string& overload,
      const py::tuple& args,
      const py::dict& kwargs,
      const py::list& returns,
      const std::vector<std::string>& names,
      const graph::Origin& origin);
  /// The values that the graph returns; gives the id of the return.
  size_t finish(const std::vector<FxValue>& values);

  graph::OverlapDecisions micro_pipeline(const graph::OverlapOptions& options);

  /// All nodes in order.
  std::vector<FxNode> nodes() const;
  const graph::Program& program() const {
    return program_;
  }

 private:
  graph::Size size_from(py::handle size);
  std::optional<graph::Type> type_from(py::handle type);
  FxValue keep(graph::Value* value);
  std::optional<graph::Arguments> read_arguments(
      const c10::FunctionSchema& schema,
      const py::tuple& args,
      const py::dict& kwargs,
      std::vector<graph::Value*>& operands) const;
  std::optional<graph::Arguments> read_numbers(const py::tuple& args, std::vector<graph::Value*>& operands) const;
  std::optional<graph::Argument> read_argument(
      py::handle given,
      const c10::TypePtr& type,
      std::vector<graph::Value*>& operands) const;
  void collect(py::handle given, std::vector<graph::Value*>& tensors, std::vector<graph::Value*>& numbers) const;
  FxNode new_node(const graph::Node& node) const;
  py::object object_from(const graph::Node& node, const graph::Argument& argument, const c10::TypePtr& type) const;

  graph::Program program_;
  std::unordered_map<size_t, graph::Value*> values_;               // by their ids
  std::unordered_map<size_t, std::vector<size_t>> given_operands_; // of the nodes that were told, by their ids
  std::map<std::string, std::string> unknown_sizes_;               // the symbol for an expression that is no size
};

} // namespace weft::python
