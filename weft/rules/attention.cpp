#include "weft/rules/builders.h"
#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Query, key and value have the dims (samples, heads, length, size), or no heads; attention stays within one sample
/// and one head. If several heads of the query share one head of the key, they form a second factor that varies faster.
struct Attention {
  explicit Attention(const OpCall& call) {
    const auto& query_sizes = call.operand(*call.operand_of("query")).sizes;
    const auto& key_sizes = call.operand(*call.operand_of("key")).sizes;
    key = own_factors(rule, key_sizes.slice(0, key_sizes.size() - 2));
    query = key;
    for (size_t d = 0; d < key.size(); ++d) {
      rule.filled.push_back(key[d][0]);
      if (query_sizes[d] != key_sizes[d]) {
        const auto sharing = rule.add_factor(query_sizes[d] / key_sizes[d]);
        rule.filled.push_back(sharing);
        query[d].push_back(sharing);
      }
    }
    key.resize(key_sizes.size());
    query.resize(query_sizes.size());
    for (const auto* name : {"attn_mask", "attn_bias"}) {
      if (const auto operand = call.operand_of(name)) {
        mask = mask_dims(call.operand(*operand).sizes);
      }
    }
    rule.inputs = dims_by_name(
        call,
        {{"query", query},
         {"key", key},
         {"value", key},
         {"attn_mask", mask},
         {"attn_bias", mask},
         {"grad_out", query},
         {"grad_out_", query},
         {"out", query}});
    if (const auto operand = call.operand_of("logsumexp")) {
      rule.inputs[*operand] = per_row(call.operand(*operand).dim());
    }
  }

  /// The dims of a tensor with one value or vector per row of the query.
  Rule::Dims per_row(int64_t ndim) const {
    auto dims = query;
    dims.resize(query.size() - 2);
    dims.resize(ndim);
    return dims;
  }

  /// Makes the rows of the query a factor, because each row attends independently of the others unless is_causal is
  /// set.
  void shard_rows(const OpCall& call) {
    const auto operand = *call.operand_of("query");
    const auto dim = query.size() - 2;
    const auto row = rule.add_factor(call.operand(operand).sizes[dim]);
    rule.filled.push_back(row);
    query[dim] = {row};
    rule.inputs[operand] = query;
    if (const auto masked = call.operand_of("attn_mask")) {
      const auto& sizes = call.operand(*masked).sizes;
      if (sizes.size() > 1 && sizes[sizes.size() - 2] == rule.sizes[row]) {
        rule.inputs[*masked][sizes.size() - 2] = {row};
      }
    }
  }

  Rule rule;
  Rule::Dims query;
  Rule::Dims key;
  Rule::Dims mask;

 private:
  /// The mask broadcasts against (samples, heads, length, length), the product of query and key.
  Rule::Dims mask_dims(c10::IntArrayRef sizes) const {
    Rule::Dims dims(sizes.size());
    for (size_t d = 0; d + 2 < sizes.size(); ++d) {
      const auto& aligned = query[d + query.size() - sizes.size()];
      dims[d] = sizes[d] == rule.size_of(aligned) ? aligned : Rule::Dim{};
    }
    return dims;
  }
};

/// Whether the rule applies. Dropout would differ by rank, and other shapes run on replicated tensors.
bool has_rule(const OpCall& call) {
  const auto& query = call.operand(*call.operand_of("query")).sizes;
  const auto& key = call.operand(*call.operand_of("key")).sizes;
  const auto& value = call.operand(*call.operand_of("value")).sizes;
  const auto ndim = query.size();
  if (ndim < 3 || ndim > 4 || key.size() != ndim || value.size() != ndim) {
    return false;
  }
  const auto heads = ndim == 4 ? 1 : 0; // the dim whose size may differ between query and key
  return query[0] == key[0] && query[0] == value[0] && key[heads] == value[heads] && key[heads] > 0 &&
      query[heads] % key[heads] == 0 && call.number("dropout_p") == 0 && !call.operand_of("dropout_mask") &&
      !call.operand_of("q_descale") && !call.operand_of("k_descale") && !call.operand_of("v_descale") &&
      !call.boolean("return_debug_mask");
}

/// Adds the outputs after the second one: the random number state and the lengths of nested tensors.
void add_constants(Rule& rule, const OpCall& call) {
  for (size_t i = 2; i < call.schema().returns().size(); ++i) {
    const auto& result = call.schema().returns()[i];
    if (result.type()->kind() != c10::TypeKind::TensorType) {
      continue;
    }
    const auto& name = result.name();
    const bool is_vector = name == "rng_state" || name == "debug_attn_mask" || name.starts_with("cum_seq");
    rule.constant.push_back(static_cast<int64_t>(rule.outputs.size()));
    rule.outputs.emplace_back(is_vector ? 1 : 0);
  }
}

/// `kept_ndim` is the ndim, per sample and head, of the second output: 1 for a number per row of the query, 2 for a
/// vector.
RuleFunction attention(int64_t kept_ndim) {
  return [kept_ndim](const OpCall& call) -> std::optional<Rule> {
    if (!has_rule(call)) {
      return std::nullopt;
    }
    Attention attention(call);
    const auto leading = static_cast<int64_t>(attention.query.size()) - 2;
    attention.rule.outputs = {attention.query, attention.per_row(leading + kept_ndim)};
    add_constants(attention.rule, call);
    return attention.rule;
  };
}

/// The rule of scaled_dot_product_attention, which chooses a kernel itself.
std::optional<Rule> any_attention_rule(const OpCall& call) {
  if (!has_rule(call)) {
    return std::nullopt;
  }
  Attention attention(call);
  if (!call.boolean("is_causal")) {
    attention.shard_rows(call);
  }
  attention.rule.outputs = {attention.query};
  return attention.rule;
}

std::optional<Rule> attention_backward_rule(const OpCall& call) {
  if (!has_rule(call)) {
    return std::nullopt;
  }
  Attention attention(call);
  auto& rule = attention.rule;
  rule.outputs = {attention.query, attention.key, attention.key};
  if (call.schema().returns().size() > 3) {
    rule.outputs.push_back(attention.mask);
  }
  rule.linear = {operands_by_name(call, {"grad_out", "grad_out_"})};
  return rule;
}

} // namespace

void add_attention_rules(RuleRegistry& registry) {
  registry.add({"scaled_dot_product_attention"}, any_attention_rule);
  registry.add(
      {"_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
       "_scaled_dot_product_efficient_attention", "_scaled_dot_product_fused_attention_overrideable"},
      attention(1));
  registry.add({"_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math"}, attention(2));
  registry.add(
      {"_scaled_dot_product_flash_attention_for_cpu_backward", "_scaled_dot_product_flash_attention_backward",
       "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_cudnn_attention_backward",
       "_scaled_dot_product_fused_attention_overrideable_backward"},
      attention_backward_rule);
}

} // namespace weft
