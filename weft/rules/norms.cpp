#include "weft/rules/builders.h"
#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// The normalized dims come last and cannot be sharded; in the statistics they have size 1.
Rule layer_norm_rule(const OpCall& call) {
  Rule rule;
  const auto& sizes = call.operand(*call.operand_of("input")).sizes;
  const auto normalized = call.integers("normalized_shape").size();
  auto data = own_factors(rule, sizes.slice(0, sizes.size() - normalized));
  data.resize(sizes.size());
  const auto result_count = call.schema().returns().size();
  const auto gradient = operands_by_name(call, {"grad_out"});
  rule.inputs = dims_by_name(call, {{"input", data}, {"grad_out", data}, {"mean", data}, {"rstd", data}});
  rule.outputs = {data};
  rule.outputs.resize(result_count, gradient.empty() ? data : Rule::Dims(normalized));
  if (!gradient.empty()) {
    rule.linear = {gradient};
    rule.unread = operands_by_name(call, {"bias"});
  }
  return rule;
}

/// Channels are normalized by group, so the groups may be sharded.
std::optional<Rule> group_norm_rule(const OpCall& call) {
  const auto& sizes = call.operand(*call.operand_of("input")).sizes;
  const bool states_sizes = call.has("N");
  const auto* argument = states_sizes ? "group" : "num_groups";
  const auto groups = call.integer(argument);
  if (sizes.size() < 2 || (states_sizes && (sizes[0] != call.integer("N") || sizes[1] != call.integer("C")))) {
    return std::nullopt;
  }
  Rule rule;
  const auto n = rule.add_factor(sizes[0]);
  const auto g = rule.add_factor(groups);
  const auto c = rule.add_factor(sizes[1] / groups);
  Rule::Dims data = {{n}, {g, c}};
  data.resize(sizes.size());
  const Rule::Dims statistic = {{n}, {g}};
  const Rule::Dims channel = {{g, c}};
  const auto gradient = operands_by_name(call, {"grad_out"});
  rule.inputs = dims_by_name(
      call,
      {{"input", data},
       {"grad_out", data},
       {"mean", statistic},
       {"rstd", statistic},
       {"weight", channel},
       {"bias", channel}});
  if (gradient.empty()) {
    rule.outputs = {data, statistic, statistic};
    rule.outputs.resize(call.schema().returns().size());
  } else {
    rule.outputs = {data, channel, channel};
    rule.linear = {gradient};
  }
  rule.unsharded = {c};
  rule.filled = {g};
  if (states_sizes) {
    rule.size_arguments = {{"N", {sizes[0]}, {{n}}}, {"C", {sizes[1]}, {{g, c}}}};
  }
  rule.size_arguments.push_back({argument, {groups}, {{g}}});
  return rule;
}

/// Every channel of every sample is normalized on its own, but running statistics are taken over all samples.
Rule instance_norm_rule(const OpCall& call) {
  Rule rule;
  const auto& sizes = call.operand(*call.operand_of("input")).sizes;
  auto data = own_factors(rule, sizes.slice(0, 2));
  rule.filled = {data[0][0], data[1][0]};
  data.resize(sizes.size());
  const Rule::Dims channel = {data[1]};
  rule.inputs = dims_by_name(
      call,
      {{"input", data}, {"weight", channel}, {"bias", channel}, {"running_mean", channel}, {"running_var", channel}});
  rule.outputs = {data};
  if (call.boolean("use_input_stats") && call.operand_of("running_mean")) {
    rule.unsharded = {data[0][0]};
    rule.updated = operands_by_name(call, {"running_mean", "running_var"});
  }
  return rule;
}

/// The source of the statistics.
enum class Statistics : uint8_t { Batch, Running };

/// The channels are dim 1. Statistics of the batch are taken over all other dims, which then cannot be sharded.
struct BatchNorm {
  BatchNorm(const OpCall& call, Statistics statistics) {
    const auto& sizes = call.operand(*call.operand_of("input")).sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool may_be_sharded = d == 1 || statistics == Statistics::Running;
      data.push_back(may_be_sharded ? Rule::Dim{rule.add_factor(sizes[d])} : Rule::Dim{});
      if (may_be_sharded) {
        rule.filled.push_back(data[d][0]);
      }
    }
    channel = {data[1]};
    // The saved statistics are empty if forward used the running statistics.
    const auto saved = [&](std::string_view name) {
      const auto operand = call.operand_of(name);
      return operand && call.operand(*operand).sizes[0] == sizes[1] ? channel : Rule::Dims(1);
    };
    rule.inputs = dims_by_name(
        call,
        {{"input", data},
         {"grad_out", data},
         {"grad_output", data},
         {"weight", channel},
         {"bias", channel},
         {"running_mean", channel},
         {"running_var", channel},
         {"save_mean", saved("save_mean")},
         {"save_var", saved("save_var")},
         {"save_invstd", saved("save_invstd")}});
  }

  void forbid_shards() {
    for (size_t f = 0; f < rule.sizes.size(); ++f) {
      rule.unsharded.push_back(static_cast<Rule::Factor>(f));
    }
    rule.filled.clear();
  }

  Rule rule;
  Rule::Dims data;
  Rule::Dims channel;
};

/// Uses the statistics of the batch and updates the running statistics if `training`.
std::optional<Rule> batch_norm_rule(const OpCall& call, bool training) {
  if (!training && !call.operand_of("running_mean")) {
    return std::nullopt;
  }
  BatchNorm norm(call, training ? Statistics::Batch : Statistics::Running);
  auto& rule = norm.rule;
  rule.outputs = {norm.data};
  const bool saves = call.schema().returns().size() > 1;
  if (saves) {
    rule.outputs.resize(3, training ? norm.channel : Rule::Dims(1));
  }
  if (call.schema().returns().size() > 3) {
    rule.outputs.emplace_back(1); // the buffer that cuDNN reserves for backward
    if (training) {
      norm.forbid_shards(); // the contents of the buffer are unknown
    }
  }
  if (training) {
    rule.updated = operands_by_name(call, {"running_mean", "running_var"});
    return rule;
  }
  if (!saves) {
    return rule;
  }
  // The saved statistics are empty or, on some devices, a copy of the running statistics: the same on all ranks only if
  // channels are not sharded.
  rule.unsharded.push_back(norm.channel[0][0]);
  for (int64_t i = 1; i < static_cast<int64_t>(rule.outputs.size()); ++i) {
    rule.constant.push_back(i);
  }
  return rule;
}

/// The running statistics, updated or not, are outputs of this operator.
std::optional<Rule> functional_batch_norm_rule(const OpCall& call) {
  const bool training = call.boolean("training", /*otherwise=*/true);
  BatchNorm norm(call, Statistics::Batch);
  auto& rule = norm.rule;
  rule.outputs = {norm.data};
  rule.outputs.resize(3, training ? norm.channel : Rule::Dims(1));
  if (call.schema().returns().size() > 5) {
    rule.outputs.emplace_back(1);
  }
  if (!training || call.schema().returns().size() > 5) {
    norm.forbid_shards();
  }
  rule.outputs.push_back(norm.channel);
  rule.outputs.push_back(norm.channel);
  return rule;
}

std::optional<Rule> batch_norm_backward_rule(const OpCall& call, bool training) {
  if (!training && !call.operand_of("running_mean")) {
    return std::nullopt;
  }
  BatchNorm norm(call, training ? Statistics::Batch : Statistics::Running);
  for (const auto* name : {"reserve", "reserveSpace"}) {
    const auto reserve = call.operand_of(name);
    if (reserve && call.operand(*reserve).sizes != c10::IntArrayRef{0}) {
      norm.forbid_shards();
    }
  }
  auto& rule = norm.rule;
  rule.outputs = {norm.data, norm.channel, norm.channel};
  rule.linear = {operands_by_name(call, {"grad_out", "grad_output"})};
  rule.unread = training ? operands_by_name(call, {"running_mean", "running_var"})
                         : operands_by_name(call, {"save_mean", "save_var", "save_invstd"});
  return rule;
}

} // namespace

void add_norm_rules(RuleRegistry& registry) {
  registry.add(
      {"native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward", "layer_norm",
       "rms_norm"},
      layer_norm_rule);
  registry.add({"native_group_norm", "native_group_norm_backward", "group_norm"}, group_norm_rule);
  registry.add({"instance_norm"}, of_ndim(2, instance_norm_rule));
  registry.add(
      {"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "batch_norm"},
      [](const OpCall& call) { return batch_norm_rule(call, call.boolean("training")); });
  registry.add({"_batch_norm_with_update"}, [](const OpCall& call) { return batch_norm_rule(call, true); });
  registry.add(
      {"_native_batch_norm_legit_no_training"}, [](const OpCall& call) { return batch_norm_rule(call, false); });
  registry.add(
      {"_native_batch_norm_legit_functional", "_batch_norm_with_update_functional"}, functional_batch_norm_rule);
  registry.add({"native_batch_norm_backward"}, [](const OpCall& call) {
    return batch_norm_backward_rule(call, call.boolean("train"));
  });
  registry.add({"batch_norm_backward"}, [](const OpCall& call) {
    return batch_norm_backward_rule(call, call.boolean("update"));
  });
  registry.add({"cudnn_batch_norm_backward"}, [](const OpCall& call) { return batch_norm_backward_rule(call, true); });
}

} // namespace weft
