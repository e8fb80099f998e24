#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// For operators on three tensors per list element. A fourth tensor holds one number per list element and is not
/// sharded.
RuleFunction of_three(const RuleFunction& rule) {
  return [rule](const OpCall& call) {
    auto result = rule(call.with(call.operands().slice(0, 3)));
    for (size_t i = 3; i < call.operands().size(); ++i) {
      result->inputs.emplace_back(call.operands()[i].sizes.size());
    }
    return result;
  };
}

} // namespace

void add_foreach_rules(RuleRegistry& registry) {
  const auto of_element = [&](std::string_view name) { return registry.find("aten::" + std::string(name))->rule; };
  // Applies the rule of the operator of that name to each list element.
  for (const std::string_view name :
       {"abs",    "acos", "add",   "asin",       "atan",  "ceil",  "clamp_max", "clamp_min", "clone", "copy",
        "cos",    "cosh", "div",   "erf",        "erfc",  "exp",   "expm1",     "floor",     "frac",  "lerp",
        "lgamma", "log",  "log10", "log1p",      "log2",  "max",   "maximum",   "minimum",   "mm",    "mul",
        "neg",    "norm", "pow",   "reciprocal", "round", "rsqrt", "sigmoid",   "sign",      "sin",   "sinh",
        "sqrt",   "sub",  "tan",   "tanh",       "trunc", "zero"}) {
    registry.add_per_element({"_foreach_" + std::string(name)}, of_element(name));
  }
  for (const std::string_view name : {"addcdiv", "addcmul"}) {
    registry.add_per_element({"_foreach_" + std::string(name)}, of_three(of_element(name)));
  }
  registry.add_per_element({"_foreach_powsum"}, of_element("linalg__powsum"));
  registry.add_per_element({"_fused_adam", "_fused_adamw", "_fused_sgd", "_fused_adagrad"}, pointwise());
}

} // namespace weft
