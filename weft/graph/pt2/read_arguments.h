#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/json_field.h"

#include <ATen/core/function_schema.h>

namespace weft::graph {

/// The values that a graph has so far, by the names that the file has for them.
class NamedValues {
 public:
  void define(const JsonField& name, Value* value);
  /// Raises for a name that is not defined, or not yet.
  Value* find(const JsonField& name) const;

 private:
  std::unordered_map<std::string, Value*> values_;
};

/// What a node is called with: arguments in order, and the values that they refer to.
struct ArgumentsAndOperands {
  Arguments arguments;
  std::vector<Value*> operands;
};

/// Of an operator: one argument per argument of its schema and of its type, absent where the node says nothing.
/// A constant number where the schema has a tensor becomes the tensor of no dims that stands for a number in PyTorch; a
/// number that is computed stays one.
ArgumentsAndOperands read_arguments(
    const JsonField& inputs,
    const c10::FunctionSchema& schema,
    const NamedValues& values);
/// Of a function of numbers: in order.
ArgumentsAndOperands read_numbers(const JsonField& inputs, const NamedValues& values);

/// A constant {"as_int": 2}, {"as_none": true}, ...; none where it is no constant of one of these types.
std::optional<c10::IValue> read_constant(const JsonField& field);

} // namespace weft::graph
