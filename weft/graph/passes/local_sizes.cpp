#include "weft/graph/passes/local_sizes.h"

#include "weft/core/shard_math.h"

#include <c10/util/Exception.h>

namespace weft::graph {

MeshPlace place_in(const DeviceMesh& mesh, int64_t rank) {
  const auto found = std::find(mesh.ranks().begin(), mesh.ranks().end(), rank);
  TORCH_CHECK_VALUE(found != mesh.ranks().end(), "[localize] a rank of ", mesh, " is required, but got ", rank, ".");
  MeshPlace place{mesh.shape().vec(), std::vector<int64_t>(mesh.ndim())};
  auto position = found - mesh.ranks().begin();
  for (auto m = mesh.ndim() - 1; m >= 0; --m) {
    place.coordinate[m] = position % mesh.size(m);
    position /= mesh.size(m);
  }
  return place;
}

Size chunk_length(const Size& length, int64_t parts) {
  return floor_divide(length + Size(parts - 1), parts);
}

Part chunk(const Size& length, int64_t parts, int64_t index) {
  const auto most = chunk_length(length, parts);
  const auto begin = minimum(Size(index) * most, length);
  return {begin, minimum(most, length - begin)};
}

Size divided(const Size& a, const Size& b) {
  if (a == b) {
    return 1;
  }
  if (b.kind() == Size::Kind::Product) {
    return divided(divided(a, b.operands()[0]), b.operands()[1]);
  }
  if (a.kind() == Size::Kind::Product) {
    const auto& factors = a.operands();
    for (size_t i = 0; i < 2; ++i) {
      const auto quotient = divided(factors[i], b);
      if (quotient.kind() != Size::Kind::FloorDivision) {
        return quotient * factors[1 - i];
      }
    }
  }
  return floor_divide(a, b);
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
  const auto cuts = layout.shard_order(tensor_dim);
  for (const auto m : cuts) {
    if (place.shape[m] == 1) {
      continue;
    }
    const auto split = written_out(layout[m].split_factor(), place.stand_ins);
    const auto piece = divided(length, split);
    TORCH_CHECK_NOT_IMPLEMENTED(
        split == Size(1) || (cuts.size() == 1 && piece.kind() != Size::Kind::FloorDivision), "[localize] the size ", size.to_string(), " of a dim cut as ", layout,
        " must be a number. Export the program with a fixed size there.");
    length = split * chunk(piece, place.shape[m], place.coordinate[m]).length;
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

} // namespace weft::graph
