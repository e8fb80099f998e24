#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <string_view>

namespace weft::graph {

/// What a program computes of sizes and other numbers, outside of the operators: `_operator.floordiv`, `math.ceil`,
/// `torch.sym_max`. Known by the names that exported programs use.
struct ScalarFunction {
  std::string name;
  size_t arity;
  c10::IValue (*call)(c10::ArrayRef<c10::IValue> arguments);
};

/// nullptr where there is none of this name.
const ScalarFunction* find_scalar_function(std::string_view name);

} // namespace weft::graph
