#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

void add_foreach_rules(RuleRegistry& registry) {
  // Each takes its elements as the operator of that name does.
  for (const std::string_view name :
       {"abs",       "acos", "add",  "addcdiv", "addcmul",    "asin",  "atan",  "ceil",    "clamp_max",
        "clamp_min", "copy", "cos",  "cosh",    "div",        "erf",   "erfc",  "exp",     "expm1",
        "floor",     "frac", "lerp", "lgamma",  "log",        "log10", "log1p", "log2",    "maximum",
        "minimum",   "mul",  "neg",  "pow",     "reciprocal", "round", "rsqrt", "sigmoid", "sign",
        "sin",       "sinh", "sqrt", "sub",     "tan",        "tanh",  "trunc", "zero"}) {
    const auto* of_element = registry.find("aten::" + std::string(name));
    registry.add_per_element({"_foreach_" + std::string(name)}, of_element->rule);
  }
  registry.add_per_element({"_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad"}, pointwise());
}

} // namespace weft
