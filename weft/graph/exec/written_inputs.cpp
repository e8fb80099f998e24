#include "weft/graph/exec/written_inputs.h"

#include "weft/graph/exec/collective_call.h"
#include "weft/graph/ir/schema_gaps.h"

#include <unordered_map>

namespace weft::graph {

namespace {

/// Values by the memory that they may share.
class SharedMemory {
 public:
  const Value* of(const Value* value) {
    auto found = parents_.find(value);
    if (found == parents_.end()) {
      return value;
    }
    return found->second = of(found->second);
  }
  void join(const Value* a, const Value* b) {
    a = of(a);
    b = of(b);
    if (a != b) {
      parents_[a] = b;
    }
  }

 private:
  std::unordered_map<const Value*, const Value*> parents_;
};

bool may_forward(const c10::OperatorHandle& op) {
  return is_wait(op) || may_give_back_operand(op);
}

template <class Fn>
void for_each_tensor(const Node& node, const Argument& argument, const Fn& fn) {
  if (argument.is_operand() && node.operand(argument.operand())->is_tensor()) {
    fn(node.operand(argument.operand()));
  }
  for (const auto& element : argument.elements()) {
    for_each_tensor(node, element, fn);
  }
}

bool gives_views(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return std::any_of(returns.begin(), returns.end(), [](const auto& each) { return each.alias_info() != nullptr; });
}

void join_views(const Node& node, SharedMemory& memory) {
  const auto& schema = node.op()->schema();
  const bool forwards = may_forward(*node.op());
  if (!forwards && !gives_views(schema)) {
    return;
  }
  for (size_t i = 0; i < node.arguments().size(); ++i) {
    if (!forwards && schema.arguments()[i].alias_info() == nullptr) {
      continue;
    }
    for_each_tensor(node, node.arguments()[i], [&](const Value* viewed) {
      for (const auto* output : node.outputs()) {
        if (output != nullptr) {
          memory.join(output, viewed);
        }
      }
    });
  }
}

} // namespace

std::unordered_set<const Value*> written_inputs(const Graph& graph) {
  SharedMemory memory;
  std::vector<const Value*> written;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (node->op() == nullptr) {
      continue;
    }
    join_views(*node, memory);
    auto positions = written_arguments(node->op()->schema());
    const auto silent = silently_written_arguments(*node);
    positions.insert(positions.end(), silent.begin(), silent.end());
    for (const auto position : positions) {
      for_each_tensor(*node, node->arguments()[position], [&](const Value* value) { written.push_back(value); });
    }
  }
  std::unordered_set<const Value*> roots;
  for (const auto* value : written) {
    roots.insert(memory.of(value));
  }
  std::unordered_set<const Value*> inputs;
  for (const auto* input : graph.inputs()) {
    if (roots.count(memory.of(input)) > 0) {
      inputs.insert(input);
    }
  }
  return inputs;
}

} // namespace weft::graph
