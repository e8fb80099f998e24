#include "weft/rules/builders.h"
#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

#include <ATen/core/Reduction.h>

namespace weft {

namespace {

/// Forbids sharding of every factor. Only a sum may be computed per shard; a mean would divide by the local number of
/// elements.
void forbid_shards(Rule& rule) {
  for (size_t f = 0; f < rule.sizes.size(); ++f) {
    rule.unsharded.push_back(static_cast<Rule::Factor>(f));
  }
}

int64_t reduction_of(const OpCall& call) {
  return call.integer("reduction", at::Reduction::Mean);
}

/// One loss per element, followed by no reduction, the mean or the sum.
Rule elementwise_loss(const OpCall& call) {
  auto rule = *pointwise()(call);
  if (reduction_of(call) != at::Reduction::None) {
    rule.outputs = {{}};
  }
  if (reduction_of(call) == at::Reduction::Mean) {
    forbid_shards(rule);
  }
  return rule;
}

/// With a mean, the operator divides by the local number of elements, so nothing may be sharded.
Rule elementwise_loss_backward(const OpCall& call) {
  auto rule = *pointwise()(call);
  rule.linear = {operands_by_name(call, {"grad_output"})};
  if (reduction_of(call) == at::Reduction::Mean) {
    forbid_shards(rule);
  }
  return rule;
}

bool has_equal_shapes(const OpCall& call) {
  return call.operand(*call.operand_of("self")).sizes == call.operand(*call.operand_of("target")).sizes;
}

/// The operator drops dims of size 1 before it compares shapes, so what broadcasts would depend on the local sizes.
std::optional<Rule> binary_cross_entropy_rule(const OpCall& call) {
  return has_equal_shapes(call) ? std::optional(elementwise_loss(call)) : std::nullopt;
}

std::optional<Rule> binary_cross_entropy_backward_rule(const OpCall& call) {
  return has_equal_shapes(call) ? std::optional(elementwise_loss_backward(call)) : std::nullopt;
}

/// Scores (n, classes, ...) and a target (n, ...) or of the scores' shape. The classes cannot be sharded.
struct ClassLoss {
  explicit ClassLoss(const OpCall& call) {
    const auto& sizes = call.operand(*call.operand_of("self")).sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      scores.push_back(d == 1 ? Rule::Dim{} : Rule::Dim{rule.add_factor(sizes[d])});
      if (d != 1) {
        rows.push_back(scores[d]);
      }
    }
    loss = reduction_of(call) == at::Reduction::None ? rows : Rule::Dims();
    const bool has_rows = call.operand(*call.operand_of("target")).sizes.size() == rows.size();
    rule.inputs = dims_by_name(
        call, {{"self", scores}, {"target", has_rows ? rows : scores}, {"is_target", scores}, {"grad_output", loss}});
  }

  Rule rule;
  Rule::Dims scores;
  Rule::Dims rows;
  Rule::Dims loss;
};

bool has_rows(const OpCall& call) {
  return call.operand(*call.operand_of("self")).dim() > 1;
}

/// Not linear in the scores. The target may be a distribution over the classes.
std::optional<Rule> cross_entropy_rule(const OpCall& call) {
  if (!has_rows(call)) {
    return std::nullopt;
  }
  ClassLoss loss(call);
  loss.rule.outputs = {loss.loss};
  if (reduction_of(call) == at::Reduction::Mean) {
    forbid_shards(loss.rule);
  }
  return loss.rule;
}

/// Returns the loss and the total weight of all rows, by which a mean is divided.
std::optional<Rule> nll_loss_rule(const OpCall& call) {
  if (!has_rows(call)) {
    return std::nullopt;
  }
  ClassLoss loss(call);
  loss.rule.outputs = {loss.loss};
  const bool gives_weight = call.schema().returns().size() > 1;
  if (gives_weight) {
    loss.rule.outputs.emplace_back();
  }
  if (reduction_of(call) == at::Reduction::None) {
    if (gives_weight) {
      loss.rule.constant = {1}; // the total weight is zero
    }
    loss.rule.linear = {operands_by_name(call, {"self"})};
  } else if (reduction_of(call) == at::Reduction::Mean) {
    forbid_shards(loss.rule);
  }
  return loss.rule;
}

/// The mean divides by the total weight from forward, so the rows may be sharded.
std::optional<Rule> nll_loss_backward_rule(const OpCall& call) {
  if (!has_rows(call)) {
    return std::nullopt;
  }
  ClassLoss loss(call);
  loss.rule.outputs = {loss.scores};
  loss.rule.linear = {operands_by_name(call, {"grad_output"})};
  loss.rule.unread = reduction_of(call) == at::Reduction::Mean ? operands_by_name(call, {"self"})
                                                               : operands_by_name(call, {"self", "total_weight"});
  return loss.rule;
}

std::optional<Rule> margin_loss_rule(const OpCall& call) {
  if (!has_rows(call)) {
    return std::nullopt;
  }
  ClassLoss loss(call);
  loss.rule.outputs = {loss.loss};
  if (call.schema().returns().size() > 1) {
    loss.rule.outputs.push_back(loss.scores); // marks the target classes
  }
  if (reduction_of(call) == at::Reduction::Mean) {
    forbid_shards(loss.rule);
  } else {
    loss.rule.filled = {loss.rows[0][0]};
  }
  return loss.rule;
}

std::optional<Rule> margin_loss_backward_rule(const OpCall& call) {
  if (!has_rows(call)) {
    return std::nullopt;
  }
  ClassLoss loss(call);
  loss.rule.outputs = {loss.scores};
  loss.rule.linear = {operands_by_name(call, {"grad_output"})};
  if (reduction_of(call) == at::Reduction::Mean) {
    forbid_shards(loss.rule);
  }
  return loss.rule;
}

} // namespace

void add_loss_rules(RuleRegistry& registry) {
  registry.add(
      {"mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy_with_logits", "l1_loss",
       "kl_div", "hinge_embedding_loss", "poisson_nll_loss", "margin_ranking_loss"},
      elementwise_loss);
  registry.add(
      {"mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward", "soft_margin_loss_backward"},
      elementwise_loss_backward);
  registry.add({"binary_cross_entropy"}, binary_cross_entropy_rule);
  registry.add({"binary_cross_entropy_backward"}, binary_cross_entropy_backward_rule);
  registry.add({"nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d", "nll_loss_nd"}, nll_loss_rule);
  registry.add({"cross_entropy_loss"}, cross_entropy_rule);
  registry.add({"nll_loss_backward", "nll_loss2d_backward"}, nll_loss_backward_rule);
  registry.add({"multi_margin_loss", "multilabel_margin_loss_forward"}, margin_loss_rule);
  registry.add({"multi_margin_loss_backward", "multilabel_margin_loss_backward"}, margin_loss_backward_rule);
}

} // namespace weft
