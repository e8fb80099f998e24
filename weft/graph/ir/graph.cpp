#include "weft/graph/ir/graph.h"

#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

/// What an operator's values are called: "aten::add_.Tensor" gives "add_".
std::string base_name(const Target& target) {
  if (const auto* op = std::get_if<c10::OperatorHandle>(&target)) {
    const auto& name = op->schema().name();
    return name.substr(name.rfind(':') + 1);
  }
  if (const auto* step = std::get_if<Step>(&target)) {
    return std::string(to_string(step->kind));
  }
  if (const auto* function = std::get_if<const ScalarFunction*>(&target)) {
    return (*function)->name.substr((*function)->name.rfind('.') + 1);
  }
  return "return";
}

} // namespace

void Node::set_constant(size_t argument, c10::IValue value) {
  TORCH_INTERNAL_ASSERT(!arguments_[argument].is_operand() && !arguments_[argument].is_list());
  arguments_[argument] = Argument(std::move(value));
}

void Node::drop_use(size_t number) {
  auto& [value, place] = operands_[number];
  auto& uses = value->uses_;
  const auto last = uses.back();
  uses[place] = last;
  last.node->operands_[last.operand].use = place;
  uses.pop_back();
}

void Node::set_operand(size_t number, Value* value) {
  if (operands_[number].value == value) {
    return;
  }
  drop_use(number);
  operands_[number] = {value, value->uses_.size()};
  value->uses_.push_back({this, number});
}

Node* Node::next() const {
  const auto following = std::next(place_);
  return following == graph_->nodes_.end() ? nullptr : &*following;
}

Node* Node::previous() const {
  return place_ == graph_->nodes_.begin() ? nullptr : &*std::prev(place_);
}

Value* Graph::add_input(const std::string& name, Type type) {
  inputs_.push_back(std::unique_ptr<Value>(new Value(fresh_name(name), std::move(type), nullptr)));
  input_values_.push_back(inputs_.back().get());
  return input_values_.back();
}

Node* Graph::insert(
    Node* before,
    Target target,
    Arguments arguments,
    const std::vector<Value*>& operands,
    OutputTypes outputs) {
  const auto name = base_name(target);
  const auto place = nodes_.insert(
      before == nullptr ? nodes_.end() : before->place_, Node(this, std::move(target), std::move(arguments)));
  auto* node = &*place;
  node->place_ = place;
  for (size_t i = 0; i < operands.size(); ++i) {
    node->operands_.push_back({operands[i], operands[i]->uses_.size()});
    operands[i]->uses_.push_back({node, i});
  }
  for (size_t i = 0; i < outputs.types.size(); ++i) {
    if (!outputs.types[i]) {
      node->output_values_.push_back(nullptr);
      continue;
    }
    const auto wanted = i < outputs.names.size() && !outputs.names[i].empty() ? outputs.names[i] : name;
    node->outputs_.push_back(std::unique_ptr<Value>(new Value(fresh_name(wanted), std::move(*outputs.types[i]), node)));
    node->output_values_.push_back(node->outputs_.back().get());
  }
  node->output_lists_ =
      outputs.lists.empty() ? std::vector<int64_t>(outputs.types.size(), Node::kSingle) : std::move(outputs.lists);
  return node;
}

Node* Graph::set_return(const std::vector<Value*>& values) {
  TORCH_INTERNAL_ASSERT(return_ == nullptr, "a graph ends once");
  Arguments arguments;
  for (size_t i = 0; i < values.size(); ++i) {
    arguments.push_back(Argument::operand(i));
  }
  return_ = insert(nullptr, Return{}, std::move(arguments), values, {});
  return return_;
}

Node* Graph::first() const {
  return nodes_.empty() ? nullptr : const_cast<Node*>(&nodes_.front());
}

void Graph::move_before(Node* node, Node* before) {
  nodes_.splice(before == nullptr ? nodes_.end() : before->place_, nodes_, node->place_);
}

void Graph::erase(Node* node) {
  for (const auto* output : node->output_values_) {
    TORCH_INTERNAL_ASSERT(output == nullptr || output->uses().empty(), "%", output->name(), " is still used");
  }
  for (size_t i = 0; i < node->operands_.size(); ++i) {
    node->drop_use(i);
  }
  if (node == return_) {
    return_ = nullptr;
  }
  nodes_.erase(node->place_);
}

void Graph::replace_all_uses(Value* value, Value* by) {
  if (value == by) {
    return;
  }
  for (const auto& use : value->uses_) {
    use.node->operands_[use.operand] = {by, by->uses_.size()};
    by->uses_.push_back(use);
  }
  value->uses_.clear();
}

std::string Graph::fresh_name(const std::string& wanted) {
  if (names_.insert(wanted).second) {
    return wanted;
  }
  // As exported programs count: add, add_1, add_2.
  auto& suffix = next_suffix_[wanted];
  while (true) {
    auto name = wanted + "_" + std::to_string(++suffix);
    if (names_.insert(name).second) {
      return name;
    }
  }
}

std::string target_name(const Node& node) {
  if (const auto* op = node.op()) {
    return c10::toString(op->operator_name());
  }
  if (const auto* function = node.function()) {
    return function->name;
  }
  return base_name(node.target());
}

} // namespace weft::graph
