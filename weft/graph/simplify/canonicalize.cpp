#include "weft/graph/simplify/canonicalize.h"

#include "weft/graph/analysis/graph_builder.h"

namespace weft::graph {

namespace {

/// The common size of all sections, if they are equal and numbers.
std::optional<int64_t> equal_size(const Node& node) {
  if (!calls(node, "aten::split_with_sizes") && !calls(node, "aten::split.sizes")) {
    return std::nullopt;
  }
  const auto& sizes = node.arguments()[1];
  if (!sizes.is_constant() || !sizes.constant().isIntList() || sizes.constant().toIntVector().empty()) {
    return std::nullopt;
  }
  const auto numbers = sizes.constant().toIntVector();
  const bool are_equal = std::all_of(numbers.begin(), numbers.end(), [&](int64_t size) { return size == numbers[0]; });
  return are_equal && numbers[0] > 0 ? std::optional<int64_t>(numbers[0]) : std::nullopt;
}

void replace_by_split(Graph& graph, Node* node, int64_t size) {
  OutputTypes outputs;
  outputs.lists = node->output_lists();
  for (const auto* output : node->outputs()) {
    outputs.types.emplace_back(output == nullptr ? std::nullopt : std::optional<Type>(output->type));
  }
  Arguments arguments = node->arguments();
  arguments[1] = Argument(c10::IValue(size));
  auto* split = graph.insert(
      node, find_operator("aten::split.Tensor"), std::move(arguments), {node->operand(0)}, std::move(outputs));
  split->origin = node->origin;
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    if (node->output(i) != nullptr) {
      graph.replace_all_uses(node->output(i), split->output(i));
    }
  }
  graph.erase(node);
}

} // namespace

bool canonicalize(Graph& graph) {
  bool changed = false;
  for (auto* node = graph.first(); node != nullptr;) {
    auto* const next = node->next();
    if (const auto size = equal_size(*node)) {
      replace_by_split(graph, node, *size);
      changed = true;
    } else if (calls(*node, "aten::_assert_tensor_metadata")) {
      graph.erase(node);
      changed = true;
    }
    node = next;
  }
  return changed;
}

} // namespace weft::graph
