#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// beta * input + alpha * (a @ b): the input broadcasts against the product, and is partial when the product is.
Rule add_product(const OpCall& call, std::string_view equation) {
  const std::vector<Operand> factors(call.operands().begin() + 1, call.operands().end());
  const std::vector<OpCall::Range> no_ranges;
  auto rule = contraction(equation)(OpCall(call.schema(), {}, factors, no_ranges)).value();
  std::vector<Rule::Factor> output;
  for (const auto& dim : rule.outputs[0]) {
    output.push_back(dim[0]);
  }
  rule.inputs.insert(rule.inputs.begin(), broadcast_dims(rule, output, call.operand(0).sizes));
  rule.linear = {{0, 1}, {0, 2}};
  rule.addends = {0};
  return rule;
}

/// (..., k) times (n, k) plus (n): the weight is as torch.nn.Linear keeps it.
Rule linear_rule(const OpCall& call) {
  Rule rule;
  const auto& input = call.operand(0).sizes;
  auto output = own_factors(rule, input);
  rule.inputs.push_back(output);
  const auto contracted = output.back();
  const auto features = rule.add_factor(call.operand(1).sizes[0]);
  const bool is_vector = call.operand(1).sizes.size() == 1;
  rule.inputs.push_back(is_vector ? Rule::Dims{contracted} : Rule::Dims{{features}, contracted});
  output.pop_back();
  if (!is_vector) {
    output.push_back({features});
  }
  rule.outputs.push_back(output);
  if (call.operands().size() > 2) {
    rule.inputs.push_back({{features}});
    rule.addends = {2};
    rule.linear = {{0, 2}, {1, 2}};
  } else {
    rule.linear = {{0}, {1}};
  }
  return rule;
}

/// Batch dims broadcast; vectors lack the outer dim.
Rule matmul_rule(const OpCall& call) {
  Rule rule;
  const auto& a = call.operand(0).sizes;
  const auto& b = call.operand(1).sizes;
  const auto batch_rank = std::max<size_t>(std::max(a.size(), b.size()), 2) - 2;
  std::vector<int64_t> batch(batch_rank, 1);
  for (const auto& sizes : {a, b}) {
    for (size_t d = 0; d + 2 < sizes.size(); ++d) {
      auto& size = batch[batch_rank - (sizes.size() - 2) + d];
      size = size == 1 ? sizes[d] : size;
    }
  }
  std::vector<Rule::Factor> factors;
  for (const auto size : batch) {
    factors.push_back(rule.add_factor(size));
  }
  const auto m = rule.add_factor(a.size() > 1 ? a[a.size() - 2] : 1);
  const auto k = rule.add_factor(a.back());
  const auto n = rule.add_factor(b.size() > 1 ? b.back() : 1);
  Rule::Dims output;
  for (const auto factor : factors) {
    output.push_back({factor});
  }
  auto left = broadcast_dims(rule, factors, a.slice(0, a.size() > 2 ? a.size() - 2 : 0));
  auto right = broadcast_dims(rule, factors, b.slice(0, b.size() > 2 ? b.size() - 2 : 0));
  if (a.size() > 1) {
    left.push_back({m});
    output.push_back({m});
  }
  left.push_back({k});
  right.push_back({k});
  if (b.size() > 1) {
    right.push_back({n});
    output.push_back({n});
  }
  rule.inputs = {left, right};
  rule.outputs = {output};
  rule.linear = {{0}, {1}};
  return rule;
}

} // namespace

void add_matmul_rules(RuleRegistry& registry) {
  registry.add({"mm"}, contraction("mk,kn->mn"));
  registry.add({"bmm"}, contraction("bmk,bkn->bmn"));
  registry.add({"mv"}, contraction("mk,k->m"));
  registry.add({"dot", "vdot"}, contraction("k,k->"));
  registry.add({"outer", "ger"}, contraction("m,n->mn"));
  registry.add({"addmm"}, [](const OpCall& call) { return add_product(call, "mk,kn->mn"); });
  registry.add({"baddbmm"}, [](const OpCall& call) { return add_product(call, "bmk,bkn->bmn"); });
  registry.add({"addmv"}, [](const OpCall& call) { return add_product(call, "mk,k->m"); });
  registry.add({"linear"}, linear_rule);
  registry.add({"matmul"}, matmul_rule);
}

} // namespace weft
