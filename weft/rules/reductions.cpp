#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// max() and min() reduce everything and may be taken of maxima; with a dim they also give the index. Of two tensors they
/// are the larger and the smaller one.
RuleFunction extremum(ReduceOp op) {
  return [op](const OpCall& call) {
    if (call.operand_of("other")) {
      return larger_of(op)(call);
    }
    return call.has("dim") ? reduction_of_whole(2)(call) : reduction(op)(call);
  };
}

/// Of two tensors that broadcast: a dim of both is reduced.
std::optional<Rule> cosine_similarity_rule(const OpCall& call) {
  auto rule = pointwise()(call).value();
  auto& output = rule.outputs[0];
  if (output.empty()) {
    return std::nullopt;
  }
  const auto dim = call.wrapped_dim("dim", static_cast<int64_t>(output.size()));
  rule.whole.push_back(output[dim][0]);
  output.erase(output.begin() + dim);
  return rule;
}

/// median() gives a value; with a dim also the index.
std::optional<Rule> median_rule(const OpCall& call) {
  return reduction_of_whole(call.has("dim") ? 2 : 1)(call);
}

/// What is counted or filtered element by element adds up over parts, but is not that of terms.
Rule counting(const OpCall& call) {
  auto rule = reduction(ReduceOp::Sum)(call).value();
  rule.linear.clear();
  return rule;
}

/// any() is the maximum of truth values, all() the minimum.
RuleFunction truth(ReduceOp op) {
  return [op](const OpCall& call) {
    if (call.has("dim") && call.integers("dim").empty()) {
      return *pointwise()(call); // unlike those of numbers, these reduce nothing where a list names no dim
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

Rule trace_rule(const OpCall& call) {
  return *reduction_of_whole(1, {{0}})(call);
}

/// renorm() scales the slices of a dim by their norms: the other dims must be whole.
Rule renorm_rule(const OpCall& call) {
  auto others = natural_order(call);
  others.erase(others.begin() + call.wrapped_dim("dim", call.operand(0).dim()));
  return with_whole(*pointwise()(call), others);
}

} // namespace

void add_reduction_rules(RuleRegistry& registry) {
  registry.add({"sum"}, reduction(ReduceOp::Sum));
  registry.add({"nansum", "count_nonzero"}, counting);
  registry.add({"amax"}, reduction(ReduceOp::Max));
  registry.add({"amin"}, reduction(ReduceOp::Min));
  registry.add({"prod"}, reduction(ReduceOp::Product));
  registry.add({"any"}, truth(ReduceOp::Max));
  registry.add({"all"}, truth(ReduceOp::Min));
  registry.add({"max"}, extremum(ReduceOp::Max));
  registry.add({"min"}, extremum(ReduceOp::Min));
  registry.add({"median", "nanmedian"}, median_rule);
  registry.add({"mean"}, reduction_of_whole(1, {{0}}));
  registry.add({"trace"}, trace_rule);
  registry.add(
      {"argmax", "argmin", "logsumexp", "special_logsumexp", "nanmean", "var", "std", "norm", "linalg_norm",
       "linalg_vector_norm"},
      reduction_of_whole());
  registry.add({"cosine_similarity"}, cosine_similarity_rule);
  registry.add({"var_mean", "std_mean", "aminmax", "_aminmax"}, reduction_of_whole(2));
  registry.add({"renorm"}, renorm_rule);
  registry.add({"cumsum"}, along_dim("dim", 1, {{0}}));
  registry.add({"cumprod", "logcumsumexp", "_logcumsumexp"}, along_dim("dim"));
  registry.add({"cummax", "cummin"}, along_dim("dim", 2));
}

} // namespace weft
