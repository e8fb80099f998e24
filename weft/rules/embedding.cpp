#include "weft/rules/builders.h"
#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Looks up rows of a table by index. If the rows are sharded, each rank contributes the rows that it holds.
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

/// Adds up the gradients of each row.
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
    rule.filled.push_back(rows); // indices of other ranks' rows add zeros to the first local row
  } else {
    rule.unsharded.push_back(rows); // padding_idx is a global row index that is not adjusted per rank
  }
  if (call.boolean("scale_grad_by_freq")) {
    for (const auto& dim : positions) {
      rule.unsharded.push_back(dim[0]); // the frequency counts all occurrences of a row
    }
  }
  return rule;
}

/// Looks up rows of a table by index and adds, averages or compares them by bag. The sizes of the bags depend on the
/// values, so only columns may be sharded.
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
  rule.constant = {1, 2, 3}; // the bag of each index, and the size of each bag
  if (call.integer("mode") == kLargest) {
    rule.outputs[3] = columns; // the index of the largest element
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
