#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// The two halves of the dim are multiplied with each other, so the dim cannot be sharded.
Rule glu_rule(const OpCall& call) {
  Rule rule;
  auto dims = own_factors(rule, call.operand(0).sizes);
  dims[call.wrapped_dim("dim", call.operand(0).dim())].clear();
  rule.inputs.assign(call.operands().size(), dims);
  rule.outputs = {dims};
  return rule;
}

Rule glu_backward_rule(const OpCall& call) {
  auto rule = glu_rule(call);
  rule.linear = {{0}};
  return rule;
}

} // namespace

void add_glu_rules(RuleRegistry& registry) {
  registry.add({"glu"}, glu_rule);
  registry.add({"glu_backward"}, glu_backward_rule);
}

} // namespace weft
