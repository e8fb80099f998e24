#include "weft/graph/analysis/memory_sharing.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/ir/schema_gaps.h"
#include "weft/propagation/alias_set.h"

#include <algorithm>

namespace weft::graph {

namespace {

void add_operands(const Node& node, const Argument& argument, std::vector<Value*>& found) {
  if (argument.is_operand() && node.operand(argument.operand())->is_tensor()) {
    found.push_back(node.operand(argument.operand()));
  }
  for (const auto& element : argument.elements()) {
    add_operands(node, element, found);
  }
}

std::vector<Value*> all_operands(const Node& node) {
  std::vector<Value*> found;
  for (const auto& argument : node.arguments()) {
    add_operands(node, argument, found);
  }
  return found;
}

/// An operator that may return an operand returns one of its first argument: for einsum an element of its list.
std::vector<Value*> first_operands(const Node& node) {
  std::vector<Value*> found;
  for (size_t i = 0; i < node.arguments().size() && found.empty(); ++i) {
    add_operands(node, node.arguments()[i], found);
  }
  return found;
}

bool is_made_of_others(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

bool may_share(const c10::Argument& result, const c10::Argument& argument) {
  const auto* const given = alias_of(argument);
  if (given == nullptr) {
    return false;
  }
  const auto& sets = given->beforeSets();
  const auto& wanted = alias_of(result)->beforeSets();
  return std::any_of(wanted.begin(), wanted.end(), [&](const auto& set) { return sets.count(set) > 0; });
}

} // namespace

std::vector<Value*> operands_of(const Node& node, size_t argument) {
  std::vector<Value*> found;
  add_operands(node, node.arguments()[argument], found);
  return found;
}

std::vector<size_t> written_arguments(const Node& node) {
  if (node.op() == nullptr || node.op()->schema().name() == "aten::detach_") {
    return {};
  }
  auto written = silently_written_arguments(node);
  const auto& arguments = node.op()->schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) {
      written.push_back(i);
    }
  }
  return written;
}

std::vector<Value*> written_operands(const Node& node) {
  std::vector<Value*> written;
  for (const auto argument : written_arguments(node)) {
    add_operands(node, node.arguments()[argument], written);
  }
  return written;
}

bool writes_to_values(const Graph& graph) {
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (!written_operands(*node).empty()) {
      return true;
    }
  }
  return false;
}

MemorySharing::MemorySharing(const Graph& graph, Forwarding forwarding) : forwarding_(forwarding), parents_(graph) {
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    add(*node);
  }
}

void MemorySharing::add(const Node& node) {
  if (node.op() == nullptr) {
    if (node.step() != nullptr) {
      join(node.output(), node.operand(0)); // a slice of the full dim may return its operand
    }
    return;
  }
  if (waits_for_collective(node) || (forwarding_ == Forwarding::Possible && is_made_of_others(*node.op()))) {
    const auto operands = all_operands(node);
    for (auto* output : node.outputs()) {
      join_all(output, operands);
    }
    return;
  }
  if (may_give_back_operand(*node.op())) {
    const auto operands = first_operands(node);
    // An einsum of several operands returns a new tensor.
    if (operands.size() == 1 || operands.size() == node.outputs().size()) {
      join_all(node.outputs(), operands);
    }
  }
  const auto& schema = node.op()->schema();
  size_t next = 0;
  for (size_t r = 0; r < schema.returns().size() && r < node.output_lists().size(); ++r) {
    const auto list = node.output_lists()[r];
    const auto outputs =
        c10::ArrayRef<Value*>(node.outputs()).slice(next, list == Node::kSingle ? 1 : static_cast<size_t>(list));
    next += outputs.size();
    for (size_t i = 0; alias_of(schema.returns()[r]) != nullptr && i < schema.arguments().size(); ++i) {
      if (may_share(schema.returns()[r], schema.arguments()[i])) {
        join_all(outputs, operands_of(node, i));
      }
    }
  }
}

void MemorySharing::join_all(c10::ArrayRef<Value*> outputs, const std::vector<Value*>& operands) {
  const bool one_by_one = outputs.size() == operands.size();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr || !outputs[i]->is_tensor()) {
      continue;
    }
    for (size_t k = one_by_one ? i : 0; k < (one_by_one ? i + 1 : operands.size()); ++k) {
      join(outputs[i], operands[k]);
    }
  }
}

void MemorySharing::join(const Value* a, const Value* b) {
  a = memory_of(a);
  b = memory_of(b);
  if (a == b) {
    return;
  }
  parents_[a] = b;
  const auto last_of = [this](const Value* memory) {
    const auto* last = last_.get(memory);
    return last == nullptr ? memory : last;
  };
  next_[last_of(b)] = a;
  last_[b] = last_of(a);
}

const Value* MemorySharing::memory_of(const Value* value) const {
  const auto* root = value;
  while (const auto* parent = parents_.get(root)) {
    root = parent;
  }
  // Shortens the path for the next lookup.
  while (value != root) {
    value = std::exchange(parents_[value], root);
  }
  return root;
}

std::vector<const Value*> MemorySharing::values_sharing(const Value* value) const {
  std::vector<const Value*> values;
  for (const auto* each = memory_of(value); each != nullptr; each = next_.get(each)) {
    values.push_back(each);
  }
  return values;
}

} // namespace weft::graph
