#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// The dim to choose from must not be sharded; its size in the output is k.
Rule topk_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dims = call.reduced_dims("dim", call.operand(0).dim());
  if (!order.empty()) {
    order[dims[0]] = -1;
  }
  auto rule = with_unsharded(rearranged(call, order), dims);
  rule.linear.clear();
  rule.outputs.resize(2, Rule::Dims(rule.outputs[0]));
  return rule;
}

/// Every value is searched for on its own, in a second operand that must not be sharded.
Rule looked_for(const OpCall& call, int64_t values, int64_t among) {
  Rule rule;
  rule.inputs.resize(2);
  rule.inputs[values] = own_factors(rule, call.operand(values).sizes);
  rule.inputs[among] = Rule::Dims(call.operand(among).sizes.size());
  rule.outputs.push_back(rule.inputs[values]);
  return rule;
}

std::optional<Rule> bucketize_rule(const OpCall& call) {
  return call.operand_of("self") ? std::optional(looked_for(call, 0, 1)) : std::nullopt;
}

std::optional<Rule> isin_rule(const OpCall& call) {
  if (!call.operand_of("elements")) {
    return std::nullopt;
  }
  return call.operand_of("test_elements") ? looked_for(call, 0, 1) : pointwise()(call);
}

/// Values and sequences have all dims but the last in common; a single sequence serves all values.
std::optional<Rule> searchsorted_rule(const OpCall& call) {
  const bool is_one_sequence = call.operand(0).dim() == 1;
  if (!call.operand_of("self") || (!is_one_sequence && call.operand(0).dim() != call.operand(1).dim())) {
    return std::nullopt;
  }
  auto rule = looked_for(call, 1, 0);
  if (!is_one_sequence) {
    rule.inputs[0] = rule.inputs[1];
    rule.inputs[0].back() = {};
  }
  if (call.operand_of("sorter")) {
    rule.inputs.push_back(rule.inputs[0]);
  }
  return rule;
}

} // namespace

void add_sorting_rules(RuleRegistry& registry) {
  registry.add({"sort"}, along_dim("dim", 2));
  registry.add({"argsort"}, along_dim("dim"));
  registry.add({"topk"}, topk_rule);
  registry.add({"kthvalue", "mode"}, unsharded_reduction(2));
  registry.add({"bucketize"}, bucketize_rule);
  registry.add({"isin"}, isin_rule);
  registry.add({"searchsorted"}, searchsorted_rule);
}

} // namespace weft
