#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <string_view>

namespace weft::graph {

/// A function of sizes and other numbers that is not an operator: `_operator.floordiv`, `math.ceil`, `torch.sym_max`.
/// The names are those of exported programs.
struct ScalarFunction {
  std::string name;
  size_t arity;
  c10::IValue (*call)(c10::ArrayRef<c10::IValue> arguments);
};

/// nullptr if there is no function of this name.
const ScalarFunction* find_scalar_function(std::string_view name);

} // namespace weft::graph
