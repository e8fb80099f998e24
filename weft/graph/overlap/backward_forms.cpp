#include "weft/graph/overlap/backward_forms.h"

#include "weft/graph/analysis/look_through.h"

#include <algorithm>

namespace weft::graph {

namespace {

bool is_step(const Node* node, std::initializer_list<StepKind> kinds) {
  return node != nullptr && node->step() != nullptr &&
      std::find(kinds.begin(), kinds.end(), node->step()->kind) != kinds.end();
}

/// The matmul that computes the gradient of a left-hand side: gradient times matrix, which may have to be transposed.
struct LeftGradient {
  Value* gradient;
  Value* matrix;
  bool transposes;
};

std::optional<LeftGradient> left_gradient(const Node& node) {
  const auto name = node.op() == nullptr ? std::string() : target_name(node);
  const bool is_linear = name == "aten::linear_backward";
  if (!is_linear && name != "aten::matmul_backward") {
    return std::nullopt;
  }
  const auto& mask = node.arguments()[3];
  if (node.output(0) == nullptr || !mask.is_constant() || !mask.constant().isBoolList() ||
      !mask.constant().toBoolList()[0]) {
    return std::nullopt;
  }
  const LeftGradient found{operand_at(node, is_linear ? 1 : 0), operand_at(node, 2), !is_linear};
  if (found.gradient == nullptr || found.matrix == nullptr || found.matrix->tensor().dim() != 2 ||
      found.gradient->tensor().dim() < 2 || found.gradient->tensor().dim() != node.output(0)->tensor().dim()) {
    return std::nullopt;
  }
  return found;
}

/// Whether an all-gather produces the operand of the gradient, or a collective that reduces takes its result.
bool is_next_to_collective(const ProgramRewriter& rewriter, const LeftGradient& found, const Value& result) {
  if (is_step(found.gradient->producer(), {StepKind::AllGather})) {
    return true;
  }
  const auto uses = rewriter.uses(result);
  return std::any_of(uses.begin(), uses.end(), [](const Value::Use& use) {
    return is_step(use.node, {StepKind::ReduceScatter, StepKind::AllReduce});
  });
}

void split_left_gradient(ProgramRewriter& rewriter, Node& node) {
  const auto found = left_gradient(node);
  if (!found || !node.output(0)->layout || !is_next_to_collective(rewriter, *found, *node.output(0))) {
    return;
  }
  rewriter.insert_before(&node, node.origin);
  auto* matrix = found->transposes ? rewriter.permute(found->matrix, {1, 0}) : found->matrix;
  auto* product = rewriter
                      .insert(
                          "aten::matmul", {Argument::operand(0), Argument::operand(1)}, {found->gradient, matrix},
                          {.types = {node.output(0)->type}}, {node.output(0)->layout})
                      ->output();
  rewriter.replace_uses(node.output(0), product);
  const auto& outputs = node.outputs();
  const bool has_others =
      std::any_of(outputs.begin() + 1, outputs.end(), [](const Value* output) { return output != nullptr; });
  if (has_others) {
    auto arguments = node.arguments();
    auto mask = node.arguments()[3].constant().toBoolList().copy();
    mask[0] = false;
    arguments[3] = Argument(c10::IValue(mask));
    std::vector<Value*> operands;
    for (size_t i = 0; i < node.operand_count(); ++i) {
      operands.push_back(node.operand(i));
    }
    OutputTypes types;
    for (size_t i = 0; i < outputs.size(); ++i) {
      types.types.push_back(i == 0 || outputs[i] == nullptr ? std::nullopt : std::optional<Type>(outputs[i]->type));
    }
    auto* rest = rewriter.insert(target_name(node), std::move(arguments), operands, std::move(types), {});
    rest->sharding = node.sharding;
    for (size_t i = 1; i < outputs.size(); ++i) {
      if (outputs[i] != nullptr) {
        rest->output(i)->layout = outputs[i]->layout;
        rewriter.replace_uses(outputs[i], rest->output(i));
      }
    }
  }
  rewriter.mark_replaced(&node);
}

bool is_sum_of_two(const Node& node) {
  return node.op() != nullptr && target_name(node) == "aten::add.Tensor" && operand_at(node, 0) != nullptr &&
      operand_at(node, 1) != nullptr && operand_at(node, 0) != operand_at(node, 1) && node.arguments()[2].is_absent();
}

/// The reduce-scatter that produces a value with one use; nullptr for any other value.
Node* own_scatter(const ProgramRewriter& rewriter, const Value& value) {
  return is_step(value.producer(), {StepKind::ReduceScatter}) && rewriter.uses(value).size() == 1 ? value.producer()
                                                                                                  : nullptr;
}

void join_scatters(ProgramRewriter& rewriter, Node& node) {
  if (!is_sum_of_two(node)) {
    return;
  }
  const auto* a = own_scatter(rewriter, *operand_at(node, 0));
  const auto* b = own_scatter(rewriter, *operand_at(node, 1));
  if (a == nullptr || b == nullptr || !(*a->step() == *b->step()) || !(a->output()->type == b->output()->type)) {
    return;
  }
  const auto& order = rewriter.order();
  for (const auto* each : {a, b}) {
    if (order.is_written_between(each->operand(0), order.number(each), order.number(&node))) {
      return;
    }
  }
  rewriter.insert_before(&node, node.origin);
  auto* sum = rewriter
                  .insert(
                      "aten::add.Tensor", {Argument::operand(0), Argument::operand(1)}, {a->operand(0), b->operand(0)},
                      {.types = {a->operand(0)->type}}, {a->step()->before})
                  ->output();
  rewriter.replace_uses(node.output(), rewriter.insert(*a->step(), sum));
  for (auto* each : {&node, operand_at(node, 0)->producer(), operand_at(node, 1)->producer()}) {
    rewriter.mark_replaced(each);
  }
}

} // namespace

void rewrite_backward(ProgramRewriter& rewriter) {
  for (auto* node = rewriter.program().graph->first(); node != nullptr; node = node->next()) {
    split_left_gradient(rewriter, *node);
    join_scatters(rewriter, *node);
  }
}

} // namespace weft::graph
