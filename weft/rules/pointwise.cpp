#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

namespace weft {

namespace {

/// Dividing every term divides the sum; rounding the quotients does not round the sum's quotient.
Rule division(const OpCall& call) {
  return call.has("rounding_mode") ? *pointwise()(call) : *pointwise({{0}})(call);
}

/// Whether the first operand is ordered and has terms, and the result is ordered too.
bool has_order(const OpCall& call) {
  const auto operands = call.operands();
  const auto arguments = call.arguments();
  return has_terms(call.operand(0).dtype) &&
      std::none_of(
             operands.begin(), operands.end(),
             [](const Operand& operand) { return c10::isComplexType(operand.dtype); }) &&
      std::none_of(arguments.begin(), arguments.end(), [](const auto& number) { return number.isComplexDouble(); });
}

Rule negation(const OpCall& call) {
  auto rule = pointwise({{0}})(call).value();
  if (has_order(call)) {
    rule.decreasing = {0};
  }
  return rule;
}

/// Adding a replicated value to the terms of a maximum adds it to the maximum. The operator multiplies its second
/// operand by a number of either sign.
Rule shift(const OpCall& call) {
  auto rule = additive()(call).value();
  if (has_order(call)) {
    rule.increasing = {0};
  }
  return rule;
}

/// The operator picks each element from one operand of the set, so all operands of the set together may be partial with
/// any op.
Rule picked_from(const OpCall& call, const std::vector<int64_t>& set) {
  auto rule = pointwise()(call).value();
  const auto dtype = call.operand(set[0]).dtype;
  if (std::all_of(set.begin(), set.end(), [&](int64_t i) { return casts_terms(call.operand(i).dtype, dtype); })) {
    rule.linear = {set};
    rule.linear_in_any_op = true;
  }
  return rule;
}

/// A number would be added as a term on every rank. With only a condition, the operator returns indices and has no
/// rule.
std::optional<Rule> where(const OpCall& call) {
  if (call.schema().arguments().size() == 1) {
    return std::nullopt;
  }
  return call.operands().size() == 3 ? picked_from(call, {1, 2}) : pointwise()(call);
}

/// Every operand on its own, broadcast to the shape of all.
Rule broadcast_together(const OpCall& call) {
  auto rule = *copying()(call);
  rule.outputs.resize(call.operands().size(), Rule::Dims(rule.outputs[0]));
  return rule;
}

/// A value that is a tensor may be partial. A number would be added as a term on every rank, unless it is zero.
Rule masked_fill(const OpCall& call) {
  if (call.operand_of("value")) {
    return picked_from(call, {0, 2});
  }
  return call.number("value", 1) == 0 ? *pointwise({{0}})(call) : *pointwise()(call);
}

/// The first operand gives the shape; the values of the second replace its values.
Rule assignment(const OpCall& call) {
  auto rule = pointwise()(call).value();
  rule.unread = {0};
  if (rule.inputs.size() > 1 && casts_terms(call.operand(1).dtype, call.operand(0).dtype)) {
    rule.linear = {{0, 1}};
    rule.linear_in_any_op = true;
  }
  return rule;
}

/// Casts to the given dtype, or to that of another tensor.
Rule cast(const OpCall& call) {
  const auto from = call.operand(0).dtype;
  const auto other = call.operand_of("other");
  const auto to = other ? call.operand(*other).dtype : call.dtype("dtype", from);
  const auto of_self = call.with(call.operands().slice(0, 1));
  auto rule = casts_terms(from, to) ? *copying()(of_self) : *pointwise()(of_self);
  if (other) {
    rule.inputs.emplace_back(call.operand(*other).dim());
    rule.of_any_layout = {*other};
  }
  return rule;
}

/// Without dropping, dropout copies its input.
std::optional<Rule> inactive_dropout(const OpCall& call) {
  return call.boolean("train") && call.number("p") != 0 ? std::nullopt : copying()(call);
}

/// In training the slope for negative elements is random.
std::optional<Rule> inactive_rrelu(const OpCall& call) {
  return call.boolean("training") ? std::nullopt : pointwise()(call);
}

/// One slope for all elements, or one per channel, which is dim 1.
Rule prelu(const OpCall& call) {
  auto rule = *pointwise()(call.with(call.operands().slice(0, 1)));
  const auto& slope = call.operand(1).sizes;
  const auto& self = call.operand(0).sizes;
  const bool is_by_channel = slope.size() == 1 && self.size() > 1 && slope[0] == self[1];
  rule.inputs.push_back(is_by_channel ? Rule::Dims{rule.inputs[0][1]} : Rule::Dims(slope.size()));
  return rule;
}

/// Some devices keep no buffer between forward and backward and pass an empty one.
Rule log_sigmoid_backward(const OpCall& call) {
  const bool has_buffer = call.operand(2).sizes == call.operand(1).sizes;
  auto rule = pointwise({{0}})(has_buffer ? call : call.with(call.operands().slice(0, 2))).value();
  if (!has_buffer) {
    rule.inputs.emplace_back(call.operand(2).dim());
  }
  return rule;
}

void add_linear_rules(RuleRegistry& registry) {
  registry.add({"add", "sub", "subtract"}, shift);
  registry.add({"rsub", "complex"}, additive());
  registry.add({"mul", "multiply"}, pointwise({{0}, {1}}));
  registry.add({"div", "divide", "true_divide"}, division);
  registry.add({"neg", "negative", "_neg_view"}, negation);
  registry.add({"conj", "_conj", "conj_physical", "_conj_physical", "deg2rad", "rad2deg", "ldexp"}, pointwise({{0}}));
  registry.add({"addcmul"}, pointwise({{0, 1}, {0, 2}}));
  registry.add({"addcdiv", "lerp"}, pointwise({{0, 1}}));
  registry.add({"maximum"}, larger_of(ReduceOp::Max));
  registry.add({"minimum"}, larger_of(ReduceOp::Min));
  // Backward operators are linear in the gradient, which is the first operand.
  registry.add(
      {"elu_backward", "gelu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish_backward",
       "hardtanh_backward", "leaky_relu_backward", "logit_backward", "mish_backward", "rrelu_with_noise_backward",
       "sigmoid_backward", "silu_backward", "softplus_backward", "softshrink_backward", "tanh_backward",
       "threshold_backward"},
      pointwise({{0}}));
  registry.add({"_prelu_kernel_backward"}, pointwise({{0}}, 2));
  registry.add({"log_sigmoid_backward"}, log_sigmoid_backward);
}

void add_copying_rules(RuleRegistry& registry) {
  registry.add({"clone", "_lazy_clone", "alias", "detach", "lift", "lift_fresh", "zero"}, copying());
  registry.add({"alias_copy", "detach_copy", "lift_fresh_copy"}, copying());
  registry.add({"contiguous", "positive", "resolve_conj", "resolve_neg"}, copying());
  registry.add({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}, inactive_dropout);
  registry.add({"broadcast_tensors"}, broadcast_together);
  registry.add({"_to_copy", "to", "type_as"}, cast);
  registry.add({"copy", "fill"}, assignment);
  registry.add({"where"}, where);
  registry.add({"masked_fill"}, masked_fill);
}

} // namespace

void add_pointwise_rules(RuleRegistry& registry) {
  add_linear_rules(registry);
  add_copying_rules(registry);
  registry.add(
      {"_add_relu",  "_prelu_kernel", "_standard_gamma_grad",
       "abs",        "acos",          "acosh",
       "angle",      "asin",          "asinh",
       "atan",       "atan2",         "atanh",
       "ceil",       "celu",          "clamp",
       "clamp_max",  "clamp_min",     "copysign",
       "cos",        "cosh",          "digamma",
       "elu",        "erf",           "erfc",
       "erfinv",     "exp",           "exp2",
       "expm1",      "floor",         "floor_divide",
       "fmax",       "fmin",          "fmod",
       "frac",       "gcd",           "gelu",
       "hardshrink", "hardsigmoid",   "hardswish",
       "hardtanh",   "heaviside",     "hypot",
       "i0",         "igamma",        "igammac",
       "lcm",        "leaky_relu",    "lgamma",
       "log",        "log10",         "log1p",
       "log2",       "logaddexp",     "logaddexp2",
       "logit",      "mish",          "mvlgamma",
       "nan_to_num", "nextafter",     "polar",
       "polygamma",  "pow",           "reciprocal",
       "relu",       "remainder",     "round",
       "rsqrt",      "sgn",           "sigmoid",
       "sign",       "silu",          "sin",
       "sinc",       "sinh",          "softplus",
       "softshrink", "sqrt",          "tan",
       "tanh",       "threshold",     "trunc",
       "xlogy"},
      pointwise());
  // Aliases of the operators above, and composites of several of them.
  registry.add(
      {"absolute",      "arccos",        "arccosh",       "arcsin",        "arcsinh",       "arctan",
       "arctan2",       "arctanh",       "clip",          "fix",           "float_power",   "greater",
       "greater_equal", "isclose",       "isfinite",      "isreal",        "less",          "less_equal",
       "log_sigmoid",   "not_equal",     "relu6",         "selu",          "special_erf",   "special_erfc",
       "special_exp2",  "special_expit", "special_expm1", "special_i0",    "special_log1p", "special_logit",
       "special_ndtr",  "special_round", "special_sinc",  "special_xlogy", "square"},
      pointwise());
  registry.add({"prelu"}, prelu);
  registry.add({"rrelu"}, inactive_rrelu);
  registry.add({"frexp", "log_sigmoid_forward"}, pointwise({}, 2));
  registry.add(
      {"special_airy_ai",
       "special_bessel_j0",
       "special_bessel_j1",
       "special_bessel_y0",
       "special_bessel_y1",
       "special_chebyshev_polynomial_t",
       "special_chebyshev_polynomial_u",
       "special_chebyshev_polynomial_v",
       "special_chebyshev_polynomial_w",
       "special_entr",
       "special_erfcx",
       "special_hermite_polynomial_h",
       "special_hermite_polynomial_he",
       "special_i0e",
       "special_i1",
       "special_i1e",
       "special_laguerre_polynomial_l",
       "special_legendre_polynomial_p",
       "special_log_ndtr",
       "special_modified_bessel_i0",
       "special_modified_bessel_i1",
       "special_modified_bessel_k0",
       "special_modified_bessel_k1",
       "special_ndtri",
       "special_scaled_modified_bessel_k0",
       "special_scaled_modified_bessel_k1",
       "special_shifted_chebyshev_polynomial_t",
       "special_shifted_chebyshev_polynomial_u",
       "special_shifted_chebyshev_polynomial_v",
       "special_shifted_chebyshev_polynomial_w",
       "special_spherical_bessel_j0",
       "special_xlog1py",
       "special_zeta"},
      pointwise());
  // Bools and bits.
  registry.add(
      {"__ilshift__", "__irshift__", "__lshift__",
       "__rshift__",  "bitwise_and", "bitwise_left_shift",
       "bitwise_not", "bitwise_or",  "bitwise_right_shift",
       "bitwise_xor", "eq",          "ge",
       "gt",          "isinf",       "isnan",
       "isneginf",    "isposinf",    "le",
       "logical_and", "logical_not", "logical_or",
       "logical_xor", "lt",          "ne",
       "signbit"},
      pointwise());
}

} // namespace weft
