#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Samples may be sharded; each time step needs the full state of the previous one. Data is (length, samples, size), or
/// samples first; states are (layers, samples, size).
std::optional<Rule> recurrent_rule(const OpCall& call) {
  const auto input = call.operand_of("input");
  const bool drops = call.boolean("train") && call.number("dropout") != 0;
  if (!input || call.operand(*input).dim() != 3 || drops) {
    return std::nullopt;
  }
  Rule rule;
  const size_t sample_dim = call.boolean("batch_first") ? 0 : 1;
  const auto sample = rule.add_factor(call.operand(*input).sizes[sample_dim]);
  rule.filled = {sample};
  Rule::Dims data(3);
  data[sample_dim] = {sample};
  const Rule::Dims state = {{}, {sample}, {}};
  rule.inputs = dims_by_name(call, {{"input", data}});
  const auto states = call.operands_of("hx");
  for (int64_t i = 0; i < states.count; ++i) {
    rule.inputs[states.begin + i] = state;
  }
  rule.outputs = {data};
  rule.outputs.resize(call.schema().returns().size(), state);
  return rule;
}

} // namespace

void add_recurrent_rules(RuleRegistry& registry) {
  registry.add({"lstm", "gru", "rnn_tanh", "rnn_relu"}, recurrent_rule);
}

} // namespace weft
