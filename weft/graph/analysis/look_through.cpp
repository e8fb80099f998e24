#include "weft/graph/analysis/look_through.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace weft::graph {

namespace {

template <size_t N>
bool is_one_of(const Node& node, const std::array<std::string_view, N>& names) {
  return node.op() != nullptr && std::find(names.begin(), names.end(), node.op()->schema().name()) != names.end();
}

bool has_one_result(const Node& node) {
  return node.outputs().size() == 1 && node.output() != nullptr && node.output()->is_tensor() &&
      node.operand_count() > 0 && node.operand(0)->is_tensor() && operand_at(node, 0) == node.operand(0);
}

/// Whether the same mesh dims shard the last dim of both tensors.
bool shards_last_dim_alike(const Value& a, const Value& b) {
  if (!a.layout || !b.layout) {
    return a.layout.has_value() == b.layout.has_value();
  }
  for (int64_t m = 0; m < a.layout->ndim(); ++m) {
    const bool shards_a = (*a.layout)[m].is_shard(a.tensor().dim() - 1);
    const bool shards_b = (*b.layout)[m].is_shard(b.tensor().dim() - 1);
    if (shards_a != shards_b || (*a.layout)[m].is_partial() != (*b.layout)[m].is_partial() ||
        (shards_a && (*a.layout)[m].blocks_id() != (*b.layout)[m].blocks_id())) {
      return false;
    }
  }
  return true;
}

} // namespace

Value* operand_at(const Node& node, size_t argument) {
  const auto& given = node.arguments()[argument];
  return given.is_operand() ? node.operand(given.operand()) : nullptr;
}

bool keeps_rows(const Node& node) {
  constexpr std::array<std::string_view, 11> kNames = {
      "aten::view",    "aten::reshape", "aten::_unsafe_view", "aten::flatten", "aten::unflatten", "aten::unsqueeze",
      "aten::squeeze", "aten::clone",   "aten::contiguous",   "aten::alias",   "aten::detach"};
  if (!is_one_of(node, kNames) || !has_one_result(node)) {
    return false;
  }
  const auto& before = node.operand(0)->tensor();
  const auto& after = node.output()->tensor();
  return before.dim() > 0 && after.dim() > 0 && before.dtype == after.dtype &&
      before.sizes.back() == after.sizes.back() && shards_last_dim_alike(*node.operand(0), *node.output());
}

bool is_cast(const Node& node) {
  constexpr std::array<std::string_view, 3> kNames = {"aten::_to_copy", "aten::to", "prims::convert_element_type"};
  if (!is_one_of(node, kNames) || !has_one_result(node) || node.operand_count() != 1) {
    return false;
  }
  const auto& before = node.operand(0)->tensor();
  const auto& after = node.output()->tensor();
  return before.sizes == after.sizes && before.device == after.device &&
      node.operand(0)->layout == node.output()->layout;
}

std::optional<std::vector<int64_t>> permutation_of(const Node& node) {
  constexpr std::array<std::string_view, 3> kNames = {"aten::t", "aten::transpose", "aten::permute"};
  if (!is_one_of(node, kNames) || !has_one_result(node) || node.operand_count() != 1) {
    return std::nullopt;
  }
  const auto rank = node.operand(0)->tensor().dim();
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const auto& arguments = node.arguments();
  const auto wrapped = [&](const c10::IValue& dim) { return (dim.toInt() + rank) % rank; };
  if (node.op()->schema().name() == kNames[0]) {
    std::reverse(dims.begin(), dims.end());
  } else if (node.op()->schema().name() == kNames[1]) {
    if (rank == 0 || !arguments[1].is_constant() || !arguments[1].constant().isInt() ||
        !arguments[2].constant().isInt()) {
      return std::nullopt;
    }
    std::swap(dims[wrapped(arguments[1].constant())], dims[wrapped(arguments[2].constant())]);
  } else {
    if (!arguments[1].is_constant() || !arguments[1].constant().isList()) {
      return std::nullopt;
    }
    for (int64_t i = 0; i < rank; ++i) {
      dims[i] = wrapped(arguments[1].constant().toListRef()[i]);
    }
  }
  return dims;
}

} // namespace weft::graph
