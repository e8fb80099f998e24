#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Input (n, groups * in, ...), weight (groups * out, in, ...), or (groups * in, out, ...) for a transposed
/// convolution. Spatial dims cannot be sharded, because a window would span several shards.
struct Convolution {
  explicit Convolution(const OpCall& call) {
    const auto& input_sizes = call.operand(*call.operand_of("input")).sizes;
    const auto& weight_sizes = call.operand(*call.operand_of("weight")).sizes;
    const bool transposed = call.boolean("transposed") || call.schema().name().starts_with("aten::conv_transpose");
    const auto groups = call.integer("groups", 1);
    const auto out_size = transposed ? weight_sizes[1] : weight_sizes[0] / groups;
    n = rule.add_factor(input_sizes[0]);
    out = rule.add_factor(out_size);
    in = rule.add_factor(input_sizes[1] / groups);
    rule.filled = {out, in};
    Rule::Dim in_channels = {in};
    Rule::Dim out_channels = {out};
    if (groups > 1) {
      const auto group = rule.add_factor(groups);
      rule.filled.push_back(group);
      in_channels = {group, in};
      out_channels = {group, out};
      rule.size_arguments.push_back({"groups", {groups}, {{group}}});
    }
    input = {{n}, in_channels};
    output = {{n}, out_channels};
    weight = transposed ? Rule::Dims{in_channels, {out}} : Rule::Dims{out_channels, {in}};
    bias = {out_channels};
    for (auto* dims : {&input, &output, &weight}) {
      dims->resize(input_sizes.size());
    }
    rule.inputs = dims_by_name(call, {{"grad_output", output}, {"input", input}, {"weight", weight}, {"bias", bias}});
  }

  static bool is_batched(const OpCall& call) {
    return call.operand(*call.operand_of("input")).dim() == call.operand(*call.operand_of("weight")).dim();
  }

  Rule rule;
  Rule::Factor n = 0;
  Rule::Factor out = 0;
  Rule::Factor in = 0;
  Rule::Dims input;
  Rule::Dims output;
  Rule::Dims weight;
  Rule::Dims bias;
};

std::optional<Rule> convolution_rule(const OpCall& call) {
  if (!Convolution::is_batched(call)) {
    return std::nullopt;
  }
  Convolution convolution(call);
  auto& rule = convolution.rule;
  rule.outputs = {convolution.output};
  rule.added = operands_by_name(call, {"bias"});
  rule.linear = {operands_by_name(call, {"input", "bias"}), operands_by_name(call, {"weight", "bias"})};
  return rule;
}

/// Gradients of input, weight and bias, as far as `output_mask` requests them.
std::optional<Rule> convolution_backward_rule(const OpCall& call) {
  if (!Convolution::is_batched(call)) {
    return std::nullopt;
  }
  Convolution convolution(call);
  auto& rule = convolution.rule;
  const auto wanted = call.booleans("output_mask");
  rule.outputs = {convolution.input, convolution.weight, convolution.bias};
  rule.linear = {operands_by_name(call, {"grad_output"})};
  if (!wanted[1]) {
    rule.unread.push_back(*call.operand_of("input"));
  }
  if (!wanted[0]) {
    rule.unread.push_back(*call.operand_of("weight"));
  }
  if (wanted[2]) {
    // If the input channels were sharded, every rank would compute the full gradient of the bias instead of a term.
    rule.unsharded = {convolution.in};
  }
  if (call.has("bias_sizes")) {
    rule.size_arguments.push_back({"bias_sizes", call.integers("bias_sizes"), convolution.bias});
  }
  return rule;
}

} // namespace

void add_convolution_rules(RuleRegistry& registry) {
  registry.add(
      {"convolution", "_convolution", "convolution_overrideable", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
       "conv_transpose2d", "conv_transpose3d"},
      convolution_rule);
  registry.add({"convolution_backward", "convolution_backward_overrideable"}, convolution_backward_rule);
}

} // namespace weft
