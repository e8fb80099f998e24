#include "weft/graph/analysis/local_sizes.h"

#include "weft/core/shard_math.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>

namespace weft::graph {

namespace {

/// A product, split into its number and its other factors.
struct Factors {
  int64_t number = 1;
  std::vector<Size> others;
};

Factors factors_of(const Size& size) {
  if (size.is_number()) {
    return {size.number(), {}};
  }
  if (size.kind() != Size::Kind::Product) {
    return {1, {size}};
  }
  auto result = factors_of(size.operands()[0]);
  auto more = factors_of(size.operands()[1]);
  result.number *= more.number;
  result.others.insert(result.others.end(), more.others.begin(), more.others.end());
  return result;
}

/// Strides for `sizes` with the dims in the same memory order as under other strides; expanded dims stay expanded.
Sizes strides_like(const Sizes& sizes, const Sizes& strides) {
  if (std::any_of(strides.begin(), strides.end(), [](const Size& stride) { return !stride.is_number(); })) {
    return contiguous_strides(sizes);
  }
  c10::SmallVector<size_t, 8> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Dims of equal stride are ordered as in a contiguous tensor.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return strides[a].number() == strides[b].number() ? a > b : strides[a].number() < strides[b].number();
  });
  Sizes result(sizes.size());
  Size next = 1;
  for (const auto d : order) {
    const bool is_expanded = strides[d] == Size(0);
    result[d] = is_expanded ? Size(0) : next;
    if (!is_expanded) {
      next = next * (sizes[d].is_number() ? maximum(sizes[d], 1) : sizes[d]);
    }
  }
  return result;
}

} // namespace

MeshPlace place_in(const DeviceMesh& mesh, int64_t rank) {
  const auto found = std::find(mesh.ranks().begin(), mesh.ranks().end(), rank);
  TORCH_CHECK_VALUE(found != mesh.ranks().end(), "[localize] a rank of ", mesh, " is required, but got ", rank, ".");
  return {mesh.shape().vec(), coordinate_at(found - mesh.ranks().begin(), mesh.shape())};
}

Size chunk_length(const Size& length, int64_t parts) {
  return floor_divide(length + Size(parts - 1), parts);
}

Part chunk(const Size& length, int64_t parts, int64_t index) {
  const auto most = chunk_length(length, parts);
  if (index == 0) {
    return {0, most};
  }
  const auto begin = minimum(Size(index) * most, length);
  return {begin, minimum(most, length - begin)};
}

std::optional<Size> quotient(const Size& a, const Size& b) {
  auto left = factors_of(a);
  const auto divisor = factors_of(b);
  if (divisor.number == 0 || left.number % divisor.number != 0) {
    return std::nullopt;
  }
  for (const auto& factor : divisor.others) {
    const auto found = std::find(left.others.begin(), left.others.end(), factor);
    if (found == left.others.end()) {
      return std::nullopt;
    }
    left.others.erase(found);
  }
  auto result = Size(left.number / divisor.number);
  for (const auto& factor : left.others) {
    result = result * factor;
  }
  return result;
}

Size local_size(const Size& size, int64_t tensor_dim, const Layout& layout, const MeshPlace& place) {
  if (size.is_number()) {
    int64_t length = 0;
    for (const auto& run : local_runs(size.number(), tensor_dim, layout, place.shape, place.coordinate)) {
      length += run.length;
    }
    return length;
  }
  auto length = size;
  for (const auto m : layout.shard_order(tensor_dim)) {
    if (place.shape[m] == 1) {
      continue;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        !layout[m].has_unequal_blocks() && !layout[m].is_ragged(), "[localize] the size ", size.to_string(),
        " of a dim sharded as ", layout, " must be a number. Export the program with a fixed size there.");
    const auto split = written_out(layout[m].split_factor(), place.stand_ins);
    const auto block = quotient(length, split);
    TORCH_CHECK_NOT_IMPLEMENTED(
        block, "[localize] the size ", size.to_string(), " of a dim sharded as ", layout,
        " must be a number, or a multiple of ", split.to_string(), ". Export the program with a fixed size there.");
    length = split * chunk(*block, place.shape[m], place.coordinate[m]).length;
  }
  return length;
}

Sizes local_sizes(const Sizes& sizes, const Layout& layout, const MeshPlace& place) {
  Sizes result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    result.push_back(local_size(sizes[d], static_cast<int64_t>(d), layout, place));
  }
  return result;
}

Type local_type(const Value& value, const MeshPlace& place) {
  if (!value.is_tensor()) {
    return value.type;
  }
  if (!value.layout->has_shard()) {
    return value.type;
  }
  auto type = value.tensor();
  const auto sizes = local_sizes(type.sizes, *value.layout, place);
  if (!(sizes == type.sizes)) {
    type.strides = strides_like(sizes, type.strides);
    type.sizes = sizes;
  }
  return type;
}

} // namespace weft::graph
