#include "weft/graph/parallelize/weight_use.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace weft::graph {

namespace {

using nn::ModuleKind;

/// The operands of a call that uses a weight.
struct Form {
  size_t weight;
  size_t input;
  bool is_transposed; // whether a weight of [outputs, inputs] is transposed before the call
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
  if (name == "aten::mm" || name == "aten::matmul" || name == "aten::bmm" || name == "aten::_grouped_mm") {
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

/// Whether a transpose exchanges the last two dims, of any number.
bool swaps_last_dims(const Node& node) {
  const auto ndim = node.operand(0)->tensor().dim();
  if (ndim < 2) {
    return false;
  }
  if (ndim == 2 || calls(node, "aten::mT") || calls(node, "aten::adjoint")) {
    return true;
  }
  const auto dims = [&] {
    std::vector<int64_t> result;
    for (size_t i = 1; i < node.arguments().size(); ++i) {
      const auto& given = node.arguments()[i];
      if (given.is_constant() && given.constant().isInt()) {
        result.push_back(given.constant().toInt());
      } else if (given.is_constant() && given.constant().isIntList()) {
        result = given.constant().toIntVector();
      }
    }
    for (auto& dim : result) {
      dim = dim < 0 ? dim + ndim : dim;
    }
    return result;
  }();
  if (calls(node, "aten::transpose.int")) {
    return dims.size() == 2 && dims[0] + dims[1] == 2 * ndim - 3 && std::max(dims[0], dims[1]) == ndim - 1;
  }
  auto swapped = std::vector<int64_t>(ndim);
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[ndim - 2], swapped[ndim - 1]);
  return calls(node, "aten::permute") && dims == swapped;
}

struct Weight {
  const Value* value;
  bool is_transposed;
  bool is_matrix_wise; // whether the calls up to it keep a stack of matrices, each by itself
};

std::optional<Weight> weight_at(const Node& node, size_t operand) {
  const auto* value = node.operand(operand);
  size_t transposes = 0;
  bool is_matrix_wise = true;
  while (value->producer() != nullptr) {
    const auto& producer = *value->producer();
    if (!is_transpose(producer) && !keeps_weight(producer)) {
      return std::nullopt;
    }
    transposes += is_transpose(producer) ? 1 : 0;
    is_matrix_wise = is_matrix_wise &&
        (is_transpose(producer) ? swaps_last_dims(producer)
                                : producer.operand(0)->tensor().sizes == value->tensor().sizes);
    value = producer.operand(0);
  }
  return Weight{value, transposes % 2 == 1, is_matrix_wise};
}

std::optional<WeightUse> use_at(
    const Node& node,
    const Form& form,
    const std::function<bool(const Value*)>& is_parameter) {
  const auto weight = weight_at(node, form.weight);
  if (!weight || !is_parameter(weight->value)) {
    return std::nullopt;
  }
  const auto ndim = weight->value->tensor().dim();
  const bool is_stack = ndim == 3 && weight->is_matrix_wise;
  const bool as_stored = weight->is_transposed == form.is_transposed;
  const bool is_embedding = form.kind == ModuleKind::Embedding;
  const bool is_weight = is_stack ? !is_embedding : ndim == 2 && !calls(node, "aten::_grouped_mm");
  if (!is_weight || (is_embedding && !as_stored)) {
    return std::nullopt;
  }
  return WeightUse{weight->value, node.operand(form.input), as_stored ? form.kind : ModuleKind::TransposedLinear};
}

} // namespace

std::optional<WeightUse> weight_use(const Node& node, const std::function<bool(const Value*)>& is_parameter) {
  if (node.op() == nullptr) {
    return std::nullopt;
  }
  const auto form = form_of(node);
  const auto from_right = form ? use_at(node, *form, is_parameter) : std::nullopt;
  const bool is_product = calls(node, "aten::matmul") || calls(node, "aten::mm") || calls(node, "aten::bmm");
  if (from_right || !is_product) {
    return from_right;
  }
  auto from_left = use_at(node, {.weight = 0, .input = 1, .is_transposed = false}, is_parameter);
  if (from_left) {
    from_left->is_left = true;
  }
  return from_left;
}

} // namespace weft::graph
