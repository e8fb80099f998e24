#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// max() and min() without a dim reduce all dims, and the input may be partial with the same op; with a dim they also
/// return the index. Of two tensors they take the larger or smaller elements.
RuleFunction extremum(ReduceOp op) {
  return [op](const OpCall& call) {
    if (call.operand_of("other")) {
      return larger_of(op)(call);
    }
    return call.has("dim") ? unsharded_reduction(2)(call) : reduction(op)(call);
  };
}

/// The operands broadcast against each other, and a dim of both is reduced.
std::optional<Rule> cosine_similarity_rule(const OpCall& call) {
  auto rule = pointwise()(call).value();
  auto& output = rule.outputs[0];
  if (output.empty()) {
    return std::nullopt;
  }
  const auto dim = call.wrapped_dim("dim", static_cast<int64_t>(output.size()));
  rule.unsharded.push_back(output[dim][0]);
  output.erase(output.begin() + dim);
  return rule;
}

/// median() returns a value; with a dim also the index.
std::optional<Rule> median_rule(const OpCall& call) {
  return unsharded_reduction(call.has("dim") ? 2 : 1)(call);
}

/// Counting or filtering element by element gives terms over shards, but the input must not be partial, because it is
/// not linear.
Rule counting(const OpCall& call) {
  auto rule = reduction(ReduceOp::Sum)(call).value();
  rule.linear.clear();
  return rule;
}

/// any() is the maximum of bools, all() the minimum.
RuleFunction truth(ReduceOp op) {
  return [op](const OpCall& call) {
    if (call.has("dim") && call.integers("dim").empty()) {
      return *pointwise()(call); // any() and all() reduce no dim if the list is empty, unlike sum()
    }
    auto rule = reduction(op)(call).value();
    rule.filled.clear();
    rule.linear.clear();
    if (call.operand(0).dtype == c10::kBool) {
      rule.linear = {{0}};
      rule.linear_op = op;
    }
    return rule;
  };
}

/// Counts by bins are terms over shards. If the bounds are equal, the operator takes the smallest and largest element of
/// the global tensor instead.
std::optional<Rule> histc_rule(const OpCall& call) {
  if (call.number("min") == call.number("max")) {
    return std::nullopt;
  }
  Rule rule;
  rule.inputs.push_back(own_factors(rule, call.operand(0).sizes));
  rule.outputs.emplace_back(1);
  return rule;
}

/// The sum of powers of the elements. Shards of the elements give its terms, but terms of the elements do not.
std::optional<Rule> power_sum(const OpCall& call) {
  auto rule = reduction(ReduceOp::Sum)(call);
  rule->linear.clear();
  return rule;
}

Rule trace_rule(const OpCall& call) {
  return *unsharded_reduction(1, {{0}})(call);
}

/// renorm() scales the slices of a dim by their norms, so the other dims must not be sharded.
Rule renorm_rule(const OpCall& call) {
  auto others = natural_order(call);
  others.erase(others.begin() + call.wrapped_dim("dim", call.operand(0).dim()));
  return with_unsharded(*pointwise()(call), others);
}

} // namespace

void add_reduction_rules(RuleRegistry& registry) {
  registry.add({"sum"}, reduction(ReduceOp::Sum));
  registry.add({"nansum", "count_nonzero"}, counting);
  registry.add({"linalg__powsum"}, power_sum);
  registry.add({"histc"}, histc_rule);
  registry.add({"amax"}, reduction(ReduceOp::Max));
  registry.add({"amin"}, reduction(ReduceOp::Min));
  registry.add({"prod"}, reduction(ReduceOp::Product));
  registry.add({"any"}, truth(ReduceOp::Max));
  registry.add({"all"}, truth(ReduceOp::Min));
  registry.add({"max"}, extremum(ReduceOp::Max));
  registry.add({"min"}, extremum(ReduceOp::Min));
  registry.add({"median", "nanmedian"}, median_rule);
  registry.add({"mean"}, unsharded_reduction(1, {{0}}));
  registry.add({"trace"}, trace_rule);
  registry.add(
      {"argmax", "argmin", "logsumexp", "special_logsumexp", "nanmean", "var", "std", "norm", "linalg_norm",
       "linalg_vector_norm"},
      unsharded_reduction());
  registry.add({"cosine_similarity"}, cosine_similarity_rule);
  registry.add({"var_mean", "std_mean", "aminmax", "_aminmax"}, unsharded_reduction(2));
  registry.add({"renorm"}, renorm_rule);
  registry.add({"cumsum"}, along_dim("dim", 1, {{0}}));
  registry.add({"cumprod", "logcumsumexp", "_logcumsumexp"}, along_dim("dim"));
  registry.add({"cummax", "cummin"}, along_dim("dim", 2));
}

} // namespace weft
