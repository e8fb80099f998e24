#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Every output has the dims that are left; the reduced ones must be whole.
RuleFunction reduction_of_whole(int64_t output_count) {
  return [output_count](const OpCall& call) {
    auto rule = reduction(ReduceOp::Max)(call).value();
    for (size_t f = 0; f < rule.sizes.size(); ++f) {
      if (rule.is_reduced(static_cast<Rule::Factor>(f))) {
        rule.whole.push_back(static_cast<Rule::Factor>(f));
      }
    }
    rule.outputs.assign(output_count, rule.outputs[0]);
    return rule;
  };
}

/// max() and min() reduce everything and may be taken of maxima; with a dim they also give the index.
RuleFunction extremum(ReduceOp op) {
  return [op](const OpCall& call) { return call.has("dim") ? reduction_of_whole(2)(call) : reduction(op)(call); };
}

} // namespace

void add_reduction_rules(RuleRegistry& registry) {
  registry.add({"sum", "nansum"}, reduction(ReduceOp::Sum));
  registry.add({"amax"}, reduction(ReduceOp::Max));
  registry.add({"amin"}, reduction(ReduceOp::Min));
  registry.add({"prod"}, reduction(ReduceOp::Product));
  registry.add({"any"}, reduction(ReduceOp::Max));
  registry.add({"all"}, reduction(ReduceOp::Min));
  registry.add({"max"}, extremum(ReduceOp::Max));
  registry.add({"min"}, extremum(ReduceOp::Min));
  registry.add({"argmax", "argmin", "logsumexp", "mean", "var", "std"}, reduction_of_whole(1));
  registry.add({"var_mean", "std_mean", "aminmax"}, reduction_of_whole(2));
  registry.add({"cumsum", "cumprod", "logcumsumexp"}, along_dim("dim"));
}

} // namespace weft
