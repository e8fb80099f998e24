#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Dividing passes sums on; rounding the quotient does not.
Rule division(const OpCall& call) {
  return call.has("rounding_mode") ? *pointwise()(call) : *pointwise({{0}})(call);
}

} // namespace

void add_pointwise_rules(RuleRegistry& registry) {
  registry.add({"add", "sub"}, additive());
  registry.add({"mul"}, pointwise({{0}, {1}}));
  registry.add({"div"}, division);
  registry.add({"neg", "real", "imag", "conj", "_conj", "_neg_view", "positive"}, pointwise({{0}}));
  registry.add({"clone", "alias", "detach", "lift_fresh", "_to_copy", "copy", "contiguous"}, copying());
  registry.add({"zero"}, pointwise({{0}}));
  registry.add(
      {"abs",         "absolute",   "acos",         "acosh",     "asin",       "asinh",   "atan",        "atan2",
       "atanh",       "ceil",       "clamp",        "clamp_max", "clamp_min",  "cos",     "cosh",        "deg2rad",
       "digamma",     "elu",        "erf",          "erfc",      "erfinv",     "exp",     "exp2",        "expm1",
       "float_power", "floor",      "floor_divide", "fmax",      "fmin",       "fmod",    "frac",        "gelu",
       "hardsigmoid", "hardswish",  "hardtanh",     "heaviside", "hypot",      "i0",      "igamma",      "igammac",
       "lcm",         "gcd",        "leaky_relu",   "lgamma",    "log",        "log10",   "log1p",       "log2",
       "log_sigmoid", "logaddexp",  "logaddexp2",   "logit",     "maximum",    "minimum", "mish",        "mvlgamma",
       "nan_to_num",  "polygamma",  "pow",          "rad2deg",   "reciprocal", "relu",    "relu6",       "remainder",
       "round",       "rsqrt",      "rsub",         "sigmoid",   "sign",       "silu",    "sin",         "sinc",
       "sinh",        "softplus",   "softshrink",   "sqrt",      "square",     "tan",     "tanh",        "threshold",
       "trunc",       "xlogy",      "addcmul",      "addcdiv",   "lerp",       "where",   "masked_fill", "zeros_like",
       "ones_like",   "empty_like", "full_like",    "fill"},
      pointwise());
  registry.add(
      {"eq",
       "ne",
       "lt",
       "le",
       "gt",
       "ge",
       "isnan",
       "isinf",
       "isfinite",
       "isneginf",
       "isposinf",
       "logical_and",
       "logical_not",
       "logical_or",
       "logical_xor",
       "bitwise_and",
       "bitwise_not",
       "bitwise_or",
       "bitwise_xor",
       "bitwise_left_shift",
       "bitwise_right_shift",
       "signbit",
       "isclose"},
      pointwise());
  // A backward form is linear in the gradient, which comes first.
  registry.add(
      {"elu_backward", "gelu_backward", "hardsigmoid_backward", "hardswish_backward", "hardtanh_backward",
       "leaky_relu_backward", "logit_backward", "mish_backward", "sigmoid_backward", "silu_backward",
       "softplus_backward", "softshrink_backward", "tanh_backward", "threshold_backward"},
      pointwise({{0}}));
}

} // namespace weft
