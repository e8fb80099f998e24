#include "weft/rules/builders.h"
#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Rows of a table by their numbers: where rows are cut, a rank gives those it holds.
std::optional<Rule> embedding_rule(const OpCall& call) {
  if (call.operand(0).dim() != 2) {
    return std::nullopt;
  }
  Rule rule;
  const auto table = own_factors(rule, call.operand(0).sizes);
  auto indices = own_factors(rule, call.operand(1).sizes);
  rule.inputs = {table, indices};
  indices.push_back(table[1]);
  rule.outputs = {indices};
  rule.lookup = {.operand = 1, .factor = table[0][0]};
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

/// Gradients are added up by row.
std::optional<Rule> embedding_dense_backward_rule(const OpCall& call) {
  const auto& gradient = call.operand(0).sizes;
  const auto& indices = call.operand(1).sizes;
  if (gradient.size() != indices.size() + 1) {
    return std::nullopt;
  }
  Rule rule;
  auto positions = own_factors(rule, indices);
  const auto columns = rule.add_factor(gradient.back());
  const auto rows = rule.add_factor(call.integer("num_weights"));
  rule.inputs = {positions, positions};
  rule.inputs[0].push_back({columns});
  rule.outputs = {{{rows}, {columns}}};
  rule.linear = {{0}};
  rule.size_arguments = {{"num_weights", {rule.sizes[rows]}, {{rows}}}};
  if (call.integer("padding_idx") < 0) {
    rule.lookup = {.operand = 1, .factor = rows};
    rule.filled.push_back(rows); // other ranks' positions are added, as zeros, to the first row
  } else {
    rule.whole.push_back(rows); // the padding is the number of a row too, and not an operand
  }
  if (call.boolean("scale_grad_by_freq")) {
    for (const auto& dim : positions) {
      rule.whole.push_back(dim[0]); // every occurrence counts
    }
  }
  return rule;
}

/// Rows of a table by their numbers, added up, averaged or compared by bag. Numbers and bags are of no length that is known
/// beforehand: columns alone may be cut.
std::optional<Rule> embedding_bag_rule(const OpCall& call) {
  constexpr int64_t kLargest = 2;
  if (call.operand(0).dim() != 2) {
    return std::nullopt;
  }
  Rule rule;
  const auto column = rule.add_factor(call.operand(0).sizes[1]);
  const Rule::Dims columns = {{}, {column}};
  rule.inputs = dims_by_name(call, {{"weight", columns}});
  rule.filled = {column};
  rule.outputs = {columns, Rule::Dims(1), Rule::Dims(1), Rule::Dims(1)};
  rule.constant = {1, 2, 3}; // to which bag a number belongs, how many a bag has
  if (call.integer("mode") == kLargest) {
    rule.outputs[3] = columns; // which of them was the largest
    rule.constant.pop_back();
  } else {
    rule.linear = {{0}};
  }
  return rule;
}

} // namespace

void add_embedding_rules(RuleRegistry& registry) {
  registry.add({"embedding"}, embedding_rule);
  registry.add({"embedding_bag"}, embedding_bag_rule);
  registry.add({"embedding_dense_backward"}, embedding_dense_backward_rule);
}

} // namespace weft
