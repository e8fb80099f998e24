#include "weft/graph/simplify/canonicalize.h"

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/look_through.h"
#include "weft/graph/analysis/slice_range.h"

#include <algorithm>
#include <array>

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

/// Whether a layer computes the value, perhaps with other leading dims: its features may be joint projections.
bool is_of_layer(const Value& value) {
  const auto* node = value.producer();
  while (node != nullptr && keeps_rows(*node)) {
    node = node->operand(0)->producer();
  }
  constexpr std::array<std::string_view, 6> kLayers = {"aten::linear", "aten::addmm", "aten::mm",
                                                       "aten::matmul", "aten::bmm",   "aten::_grouped_mm"};
  return node != nullptr && node->op() != nullptr &&
      std::find(kLayers.begin(), kLayers.end(), node->op()->schema().name()) != kLayers.end();
}

/// The slices of a layer's output, this one among them, that divide a dim into chunks of equal size, in their order; empty
/// if they do not.
std::vector<Node*> equal_slices(const Node& node) {
  const auto own = slice_range(node);
  if (!own || own->begin == own->end || !is_of_layer(*node.operand(0))) {
    return {};
  }
  const auto step = own->end - own->begin;
  const auto size = node.operand(0)->tensor().sizes[own->dim].number();
  if (step == size || size % step != 0) {
    return {};
  }
  std::vector<Node*> slices(size / step, nullptr);
  for (const auto& use : node.operand(0)->uses()) {
    const auto range = slice_range(*use.node);
    if (range && range->dim == own->dim && range->end - range->begin == step && range->begin % step == 0) {
      auto& slice = slices[range->begin / step];
      if (slice != nullptr) {
        return {};
      }
      slice = use.node;
    }
  }
  return std::find(slices.begin(), slices.end(), nullptr) == slices.end() ? slices : std::vector<Node*>{};
}

/// Returns the node to go on with.
Node* replace_slices_by_split(Graph& graph, Node* first, const std::vector<Node*>& slices) {
  OutputTypes outputs;
  outputs.lists = {static_cast<int64_t>(slices.size())};
  for (const auto* slice : slices) {
    outputs.types.emplace_back(slice->output()->type);
  }
  const auto range = slice_range(*first);
  Arguments arguments{
      Argument::operand(0), Argument(c10::IValue(range->end - range->begin)), Argument(c10::IValue(range->dim))};
  auto* split = graph.insert(
      first, find_operator("aten::split.Tensor"), std::move(arguments), {first->operand(0)}, std::move(outputs));
  split->origin = first->origin;
  for (size_t i = 0; i < slices.size(); ++i) {
    graph.replace_all_uses(slices[i]->output(), split->output(i));
    graph.erase(slices[i]);
  }
  return split->next();
}

} // namespace

bool canonicalize(Graph& graph) {
  bool changed = false;
  for (auto* node = graph.first(); node != nullptr;) {
    auto* next = node->next();
    if (const auto slices = equal_slices(*node); !slices.empty()) {
      next = replace_slices_by_split(graph, node, slices);
      changed = true;
    } else if (const auto size = equal_size(*node)) {
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
