#include "weft/graph/overlap/program_rewriter.h"

#include "weft/core/layout_algebra.h"
#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/look_through.h"

#include <algorithm>

namespace weft::graph {

namespace {

std::optional<Layout> permuted(const std::optional<Layout>& layout, const std::vector<int64_t>& permutation) {
  if (!layout) {
    return std::nullopt;
  }
  Placements placements;
  std::vector<int64_t> shard_positions;
  for (int64_t m = 0; m < layout->ndim(); ++m) {
    const auto& placement = (*layout)[m];
    if (placement.is_shard()) {
      const auto dim = std::find(permutation.begin(), permutation.end(), placement.dim()) - permutation.begin();
      placements.push_back(placement.along(dim));
    } else {
      placements.push_back(placement);
    }
    shard_positions.push_back(layout->shard_position(m));
  }
  return Layout(placements, shard_positions);
}

TensorType permuted(const TensorType& type, const std::vector<int64_t>& permutation) {
  auto result = type;
  for (size_t i = 0; i < permutation.size(); ++i) {
    result.sizes[i] = type.sizes[permutation[i]];
    result.strides[i] = type.strides[permutation[i]];
  }
  return result;
}

} // namespace

std::vector<Value::Use> ProgramRewriter::uses(const Value& value) const {
  std::vector<Value::Use> result;
  for (const auto& use : value.uses()) {
    if (!is_replaced(use.node)) {
      result.push_back(use);
    }
  }
  return result;
}

Node* ProgramRewriter::insert(
    const std::string& op,
    Arguments arguments,
    const std::vector<Value*>& operands,
    OutputTypes outputs,
    const std::vector<std::optional<Layout>>& layouts) {
  const auto target = find_operator(op);
  arguments.resize(target.schema().arguments().size());
  auto* node = program_.graph->insert(place_, target, std::move(arguments), operands, std::move(outputs));
  node->origin = origin_;
  for (size_t i = 0; i < layouts.size(); ++i) {
    node->output(i)->layout = layouts[i];
  }
  order_.place(node);
  return node;
}

Value* ProgramRewriter::insert(const Step& step, Value* value) {
  auto* node = program_.graph->insert(place_, step, {Argument::operand(0)}, {value}, {.types = {value->type}});
  node->origin = origin_;
  node->output()->layout = step.after;
  order_.place(node);
  return node->output();
}

Value* ProgramRewriter::repeat(const Node& node, Value* value) {
  if (const auto permutation = permutation_of(node)) {
    return permute(value, *permutation);
  }
  auto type = value->tensor();
  type.dtype = node.output()->tensor().dtype;
  return insert(target_name(node), node.arguments(), {value}, {.types = {std::move(type)}}, {value->layout})->output();
}

Value* ProgramRewriter::permute(Value* value, const std::vector<int64_t>& permutation) {
  auto type = permuted(value->tensor(), permutation);
  auto layout = permuted(value->layout, permutation);
  return insert(
             "aten::permute", {Argument::operand(0), c10::IValue(permutation)}, {value}, {.types = {std::move(type)}},
             {std::move(layout)})
      ->output();
}

bool ProgramRewriter::can_state(const Sizes& sizes) {
  return std::count_if(sizes.begin(), sizes.end(), [](const Size& size) { return !size.is_number(); }) <= 1;
}

Value* ProgramRewriter::reshape(Value* value, const Sizes& sizes, const std::optional<Layout>& layout) {
  const auto& type = value->tensor();
  if (type.sizes == sizes) {
    return value;
  }
  std::vector<int64_t> numbers;
  std::vector<int64_t> stated;
  for (const auto& size : sizes) {
    numbers.push_back(size.is_number() ? size.number() : -1);
    if (layout && !size.is_number() && !trial_values_) {
      trial_values_.emplace(program_);
    }
    stated.push_back(size.is_number() ? size.number() : layout ? trial_values_->of(size) : -1);
  }
  auto* node = insert(
      "aten::reshape", {Argument::operand(0), c10::IValue(numbers)}, {value},
      {.types = {contiguous_type(type.dtype, sizes, type.device)}}, {layout});
  if (layout) {
    CallSharding sharding;
    sharding.size_arguments.push_back({1, stated, *layout});
    node->sharding = std::make_shared<const CallSharding>(std::move(sharding));
  }
  return node->output();
}

Value* ProgramRewriter::view_as(Value* value, c10::ScalarType dtype) {
  auto type = value->tensor();
  type.dtype = dtype;
  return insert(
             "aten::view.dtype", {Argument::operand(0), c10::IValue(static_cast<int64_t>(dtype))}, {value},
             {.types = {std::move(type)}}, {value->layout})
      ->output();
}

Value* ProgramRewriter::matrix_of(const MatmulCall& call) {
  if (call.form == MatmulCall::Form::AsIs) {
    return call.other;
  }
  if (call.form == MatmulCall::Form::Transposed) {
    return permute(call.other, {1, 0});
  }
  auto type = call.other->tensor();
  type.sizes.erase(type.sizes.begin());
  type.strides.erase(type.strides.begin());
  std::optional<Layout> layout;
  if (call.other->layout) {
    layout = map_shards(*call.other->layout, [](const Placement& p) { return p.along(p.dim() - 1); });
  }
  return insert(
             "aten::squeeze.dim", {Argument::operand(0), c10::IValue(0)}, {call.other}, {.types = {std::move(type)}},
             {layout})
      ->output();
}

Argument ProgramRewriter::size_argument(Value* tensor, int64_t dim, const Size& size, std::vector<Value*>& operands) {
  if (size.is_number()) {
    return c10::IValue(size.number());
  }
  auto* number = insert(
                     "aten::sym_size.int", {Argument::operand(0), c10::IValue(dim)}, {tensor},
                     {.types = {NumberType{NumberKind::Int, size.to_string()}}}, {})
                     ->output();
  operands.push_back(number);
  return Argument::operand(operands.size() - 1);
}

void ProgramRewriter::hoist(const std::vector<Node*>& nodes, Node* before) {
  for (auto* node : nodes) {
    program_.graph->move_before(node, before);
    order_.place(node);
  }
}

void ProgramRewriter::replace_uses(Value* value, Value* by) {
  for (const auto& use : uses(*value)) {
    if (use.node != by->producer()) {
      use.node->set_operand(use.operand, by);
    }
  }
}

void ProgramRewriter::mark_unused(const std::vector<Node*>& nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const auto& outputs = (*node)->outputs();
    const bool is_used = std::any_of(outputs.begin(), outputs.end(), [&](const Value* output) {
      return output != nullptr && !uses(*output).empty();
    });
    if (!is_used) {
      mark_replaced(*node);
    }
  }
}

void ProgramRewriter::erase_replaced() {
  std::vector<Node*> nodes;
  for (auto* node = program_.graph->first(); node != nullptr && !replaced_.empty(); node = node->next()) {
    if (is_replaced(node)) {
      nodes.push_back(node);
    }
  }
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    order_.forget(*node);
    program_.graph->erase(*node);
  }
  if (!nodes.empty() && order_.has_writes()) {
    order_ = NodeOrder(*program_.graph); // new values may get the addresses of erased ones
  }
  replaced_.clear();
}

std::optional<Layout> layout_of_rows(const Value& rows, const Value& last, int64_t ndim) {
  const auto& of_rows = *rows.layout;
  const auto& of_last = *last.layout;
  const auto rows_last_dim = rows.tensor().dim() - 1;
  const auto last_dim = last.tensor().dim() - 1;
  Placements placements;
  std::vector<int64_t> shard_positions;
  for (int64_t m = 0; m < of_rows.ndim(); ++m) {
    const bool shards_rows = of_rows[m].is_shard() && of_rows[m].dim() != rows_last_dim;
    const bool shards_rows_of_last = of_last[m].is_shard() && of_last[m].dim() != last_dim;
    if (shards_rows != shards_rows_of_last) {
      return std::nullopt;
    }
    if (shards_rows) {
      placements.push_back(of_rows[m]);
      shard_positions.push_back(of_rows.shard_position(m));
    } else {
      placements.push_back(of_last[m].is_shard() ? of_last[m].along(ndim - 1) : of_last[m]);
      shard_positions.push_back(of_last.shard_position(m));
    }
  }
  return Layout(placements, shard_positions);
}

} // namespace weft::graph
