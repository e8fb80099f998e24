#include "weft/graph/analysis/slice_range.h"

#include <algorithm>

namespace weft::graph {

std::optional<SliceRange> slice_range(const Node& node) {
  if (!calls(node, "aten::slice.Tensor") || node.operand_count() != 1) {
    return std::nullopt;
  }
  const auto& sizes = node.operand(0)->tensor().sizes;
  const auto ndim = static_cast<int64_t>(sizes.size());
  const auto number = [&](size_t argument, int64_t otherwise) {
    const auto& given = node.arguments()[argument];
    return given.is_constant() && given.constant().isInt() ? given.constant().toInt() : otherwise;
  };
  const auto dim = number(1, 0) < 0 ? number(1, 0) + ndim : number(1, 0);
  if (!sizes[dim].is_number() || number(4, 1) != 1) {
    return std::nullopt;
  }
  const auto size = sizes[dim].number();
  const auto place = [&](int64_t given) { return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size); };
  return SliceRange{dim, place(number(2, 0)), place(number(3, size))};
}

} // namespace weft::graph
