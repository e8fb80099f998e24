#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Gives a tensor of the same shape its layout. One without values is partial where the other is: it is made to be
/// written to, most often by what the other holds. One with values is replicated there.
void follow_layout(const OpCall& call, Rule& rule) {
  const auto dtype = call.operand(0).dtype;
  if (call.schema().name().find("empty") != std::string::npos && casts_terms(dtype, call.dtype("dtype", dtype))) {
    rule.linear = {{0}};
    rule.linear_in_any_op = true;
  } else {
    rule.unread = {0};
  }
}

Rule like_rule(const OpCall& call) {
  auto rule = pointwise()(call).value();
  follow_layout(call, rule);
  return rule;
}

/// A new tensor with the dtype and device of an existing one. If it also has that tensor's shape, it gets the same
/// layout.
Rule new_rule(const OpCall& call) {
  Rule rule;
  const auto size = call.integers("size");
  const bool is_alike = call.operand(0).sizes == c10::IntArrayRef(size);
  rule.inputs.push_back(is_alike ? own_factors(rule, size) : Rule::Dims(call.operand(0).sizes.size()));
  rule.outputs.push_back(is_alike ? rule.inputs[0] : Rule::Dims(size.size()));
  if (is_alike) {
    follow_layout(call, rule);
  } else {
    rule.of_any_layout = {0};
  }
  rule.size_arguments.push_back({"size", size, rule.outputs[0]});
  return rule;
}

/// The strides are those of the global tensor, so that the new tensor is replicated.
Rule new_strided_rule(const OpCall& call) {
  Rule rule;
  rule.inputs.emplace_back(call.operand(0).dim());
  rule.outputs.emplace_back(call.integers("size").size());
  rule.of_any_layout = {0};
  return rule;
}

} // namespace

void add_creation_rules(RuleRegistry& registry) {
  registry.add({"empty_like", "zeros_like", "ones_like", "full_like"}, like_rule);
  registry.add({"new_empty", "new_zeros", "new_ones", "new_full"}, new_rule);
  registry.add({"new_empty_strided"}, new_strided_rule);
}

} // namespace weft
