#include "weft/graph/parallelize/weight_use.h"

#include <algorithm>
#include <array>

namespace weft::graph {

namespace {

using nn::ModuleKind;

/// The operands of a call that uses a weight.
struct Form {
  size_t weight;
  size_t input;
  bool is_transposed; // whether the weight is transposed before the call
  ModuleKind kind = ModuleKind::Linear;
};

std::optional<Form> form_of(const Node& node) {
  const auto name = target_name(node);
  if (name == "aten::linear") {
    return Form{1, 0, false};
  }
  if (name == "aten::addmm") {
    return Form{2, 1, true};
  }
  if (name == "aten::mm" || name == "aten::matmul" || name == "aten::bmm") {
    return Form{1, 0, true};
  }
  if (name == "aten::embedding") {
    return Form{0, 1, false, ModuleKind::Embedding};
  }
  return std::nullopt;
}

template <size_t N>
bool calls_one_of(const Node& node, const std::array<std::string_view, N>& names) {
  return node.op() != nullptr && std::find(names.begin(), names.end(), node.op()->schema().name()) != names.end();
}

bool is_transpose(const Node& node) {
  constexpr std::array<std::string_view, 6> kTransposes = {"aten::t",       "aten::permute", "aten::transpose",
                                                           "aten::numpy_T", "aten::mT",      "aten::adjoint"};
  return calls_one_of(node, kTransposes);
}

/// Other calls that a weight may go through before the product: casts and copies, and what decompositions repeat it by for
/// every row of a batch.
bool keeps_weight(const Node& node) {
  constexpr std::array<std::string_view, 9> kCopies = {"aten::expand",    "aten::view",       "aten::clone",
                                                       "aten::unsqueeze", "aten::contiguous", "aten::alias",
                                                       "aten::detach",    "aten::to",         "aten::_to_copy"};
  return calls_one_of(node, kCopies);
}

struct Weight {
  const Value* value;
  bool is_transposed;
};

std::optional<Weight> weight_at(const Node& node, size_t operand) {
  const auto* value = node.operand(operand);
  size_t transposes = 0;
  while (value->producer() != nullptr) {
    const auto& producer = *value->producer();
    if (!is_transpose(producer) && !keeps_weight(producer)) {
      return std::nullopt;
    }
    transposes += is_transpose(producer) ? 1 : 0;
    value = producer.operand(0);
  }
  return Weight{value, transposes % 2 == 1};
}

} // namespace

std::optional<WeightUse> weight_use(const Node& node, const std::function<bool(const Value*)>& is_parameter) {
  if (node.op() == nullptr) {
    return std::nullopt;
  }
  if (const auto form = form_of(node)) {
    const auto weight = weight_at(node, form->weight);
    if (weight && is_parameter(weight->value) && weight->value->tensor().dim() == 2 &&
        weight->is_transposed == form->is_transposed) {
      return WeightUse{weight->value, node.operand(form->input), form->kind};
    }
  }
  return std::nullopt;
}

} // namespace weft::graph
