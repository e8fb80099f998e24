#include "weft/graph/analysis/memory_sharing.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/ir/schema_gaps.h"

#include <algorithm>

namespace weft::graph {

namespace {

template <class Fn>
void for_each_operand(const Node& node, const Argument& argument, const Fn& fn) {
  if (argument.is_operand()) {
    fn(node.operand(argument.operand()));
  }
  for (const auto& element : argument.elements()) {
    for_each_operand(node, element, fn);
  }
}

/// Whether outputs may be what some operand is, although the schema says nothing of it: an operator that is made of others
/// may give back its operand as it is (dropout does so in evaluation); a slice may keep all; what was awaited is the operand.
bool may_forward(const Node& node, Forwarding forwarding) {
  if (node.op() == nullptr) {
    return node.step() != nullptr;
  }
  const bool forwards = forwarding == Forwarding::Known
      ? may_give_back_operand(*node.op())
      : node.op()->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return forwards || waits_for_collective(node);
}

bool gives_views(const Node& node) {
  if (node.op() == nullptr) {
    return false;
  }
  const auto& returns = node.op()->schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const auto& each) { return each.alias_info() != nullptr; });
}

} // namespace

std::vector<const Value*> written_operands(const Node& node) {
  std::vector<const Value*> written;
  if (node.op() == nullptr || node.op()->schema().name() == "aten::detach_") {
    return written;
  }
  const auto& arguments = node.op()->schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) {
      for_each_operand(node, node.arguments()[i], [&](const Value* value) { written.push_back(value); });
    }
  }
  for (const auto argument : silently_written_arguments(node)) {
    for_each_operand(node, node.arguments()[argument], [&](const Value* value) { written.push_back(value); });
  }
  return written;
}

MemorySharing::MemorySharing(const Graph& graph, Forwarding forwarding) : parents_(graph) {
  std::vector<const Value*> written;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    const bool forwards = may_forward(*node, forwarding);
    if (forwards || gives_views(*node)) {
      for (size_t i = 0; i < node->arguments().size(); ++i) {
        if (!forwards && node->op()->schema().arguments()[i].alias_info() == nullptr) {
          continue;
        }
        for_each_operand(*node, node->arguments()[i], [&](const Value* operand) {
          for (const auto* output : node->outputs()) {
            if (output != nullptr && output->is_tensor() && operand->is_tensor()) {
              join(output, operand);
            }
          }
        });
      }
    }
    const auto operands = written_operands(*node);
    written.insert(written.end(), operands.begin(), operands.end());
  }
  for (const auto* value : written) {
    written_.insert(memory_of(value));
  }
  is_any_written_ = !written.empty();
}

const Value* MemorySharing::memory_of(const Value* value) const {
  const auto* root = value;
  while (const auto* parent = parents_.get(root)) {
    root = parent;
  }
  // The next time the way is short.
  while (value != root) {
    value = std::exchange(parents_[value], root);
  }
  return root;
}

void MemorySharing::join(const Value* a, const Value* b) {
  a = memory_of(a);
  b = memory_of(b);
  if (a != b) {
    parents_[a] = b;
  }
}

bool writes_to_values(const Graph& graph) {
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (!written_operands(*node).empty()) {
      return true;
    }
  }
  return false;
}

} // namespace weft::graph
