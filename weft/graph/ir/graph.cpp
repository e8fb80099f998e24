#include "weft/graph/ir/graph.h"

#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

/// The base name of an operator's outputs: "add_" for "aten::add_.Tensor".
std::string base_name(const Target& target) {
  if (const auto* op = std::get_if<c10::OperatorHandle>(&target)) {
    const auto& name = op->schema().name();
    return name.substr(name.rfind(':') + 1);
  }
  if (const auto* step = std::get_if<SharedStep>(&target)) {
    return std::string(to_string((*step)->kind));
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

Graph::~Graph() {
  for (auto* node = first_; node != nullptr;) {
    destroy(std::exchange(node, node->next_));
  }
  for (auto* input : inputs_) {
    input->~Value();
  }
}

Value* Graph::make_value(std::string_view wanted, Type type, Node* producer) {
  return new (values_.take()) Value(value_ids_++, names_.fresh(wanted), std::move(type), producer);
}

Value* Graph::add_input(const std::string& name, Type type) {
  inputs_.push_back(make_value(name, std::move(type), nullptr));
  return inputs_.back();
}

const std::vector<int64_t>* Graph::kept_lists(std::vector<int64_t> lists, size_t outputs) {
  static const std::vector<std::vector<int64_t>> all_single = [] {
    std::vector<std::vector<int64_t>> each;
    for (size_t count = 0; count <= 8; ++count) {
      each.emplace_back(count, Node::kSingle);
    }
    return each;
  }();
  if (lists.empty()) {
    lists.assign(outputs, Node::kSingle);
  }
  if (lists.size() < all_single.size() && lists == all_single[lists.size()]) {
    return &all_single[lists.size()];
  }
  lists_.push_back(std::move(lists));
  return &lists_.back();
}

Node* Graph::insert(
    Node* before,
    Target target,
    Arguments arguments,
    c10::ArrayRef<Value*> operands,
    OutputTypes outputs) {
  auto* node = new (nodes_.take()) Node(this, node_ids_++, std::move(target), std::move(arguments));
  link(node, before);
  node->operands_.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    node->operands_.push_back({operands[i], operands[i]->uses_.size()});
    operands[i]->uses_.push_back({node, i});
  }
  for (size_t i = 0; i < outputs.types.size(); ++i) {
    if (!outputs.types[i]) {
      node->outputs_.push_back(nullptr);
      continue;
    }
    const bool is_named = i < outputs.names.size() && !outputs.names[i].empty();
    node->outputs_.push_back(
        make_value(is_named ? outputs.names[i] : base_name(node->target_), std::move(*outputs.types[i]), node));
  }
  node->output_lists_ = kept_lists(std::move(outputs.lists), outputs.types.size());
  return node;
}

Node* Graph::set_return(c10::ArrayRef<Value*> values) {
  TORCH_INTERNAL_ASSERT(return_ == nullptr, "a graph ends once");
  Arguments arguments;
  for (size_t i = 0; i < values.size(); ++i) {
    arguments.push_back(Argument::operand(i));
  }
  return_ = insert(nullptr, Return{}, std::move(arguments), values, {});
  return return_;
}

void Graph::link(Node* node, Node* before) {
  auto* const behind = before == nullptr ? last_ : before->previous_;
  node->next_ = before;
  node->previous_ = behind;
  (behind == nullptr ? first_ : behind->next_) = node;
  (before == nullptr ? last_ : before->previous_) = node;
  ++size_;
}

void Graph::unlink(Node* node) {
  (node->previous_ == nullptr ? first_ : node->previous_->next_) = node->next_;
  (node->next_ == nullptr ? last_ : node->next_->previous_) = node->previous_;
  --size_;
}

void Graph::move_before(Node* node, Node* before) {
  if (node != before && node->next_ != before) {
    unlink(node);
    link(node, before);
  }
}

void Graph::erase(Node* node) {
  for (const auto* output : node->outputs_) {
    TORCH_INTERNAL_ASSERT(output == nullptr || output->uses().empty(), "%", output->name(), " is still used");
  }
  for (size_t i = 0; i < node->operands_.size(); ++i) {
    node->drop_use(i);
  }
  if (node == return_) {
    return_ = nullptr;
  }
  unlink(node);
  destroy(node);
}

void Graph::destroy(Node* node) {
  for (auto* output : node->outputs_) {
    if (output != nullptr) {
      output->~Value();
      values_.give_back(output);
    }
  }
  node->~Node();
  nodes_.give_back(node);
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

std::string target_name(const Node& node) {
  if (const auto* op = node.op()) {
    return c10::toString(op->operator_name());
  }
  if (const auto* function = node.function()) {
    return function->name;
  }
  return base_name(node.target());
}

bool calls(const Node& node, std::string_view op) {
  if (node.op() == nullptr) {
    return false;
  }
  const auto& [name, overload] = node.op()->operator_name();
  return overload.empty() ? op == name
                          : op.size() == name.size() + 1 + overload.size() && op.starts_with(name) &&
          op[name.size()] == '.' && op.ends_with(overload);
}

} // namespace weft::graph
