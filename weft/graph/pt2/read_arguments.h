#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/json_field.h"

#include <ATen/core/function_schema.h>

namespace weft::graph {

/// The values of the graph so far, by their names in the file.
class NamedValues {
 public:
  void define(const JsonField& name, Value* value);
  /// Raises for a name that is not defined yet.
  Value* find(const JsonField& name) const;

 private:
  std::unordered_map<std::string, Value*> values_;
};

/// The arguments of a node in order, and the operands that they refer to.
struct ArgumentsAndOperands {
  Arguments arguments;
  std::vector<Value*> operands;
};

/// Reads the arguments of an operator: one per argument of its schema and of its type, absent if the node does not give
/// it. A constant number for a tensor argument becomes PyTorch's wrapped number, a tensor of no dims; a computed number
/// stays a number. `renamed`: the schema's names of arguments that the file names otherwise.
ArgumentsAndOperands read_arguments(
    const JsonField& inputs,
    const c10::FunctionSchema& schema,
    const NamedValues& values,
    const std::map<std::string, std::string>& renamed = {});
/// Reads the arguments of a function of numbers, in order.
ArgumentsAndOperands read_numbers(const JsonField& inputs, const NamedValues& values);

/// A constant {"as_int": 2}, {"as_none": true}, ...; none if it is not a constant of one of these types.
std::optional<c10::IValue> read_constant(const JsonField& field);

} // namespace weft::graph
