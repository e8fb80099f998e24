#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/analysis/trial_values.h"

namespace weft::graph {

/// The coordinate of a rank in a mesh.
struct MeshPlace {
  std::vector<int64_t> shape;
  std::vector<int64_t> coordinate;
  StandIns stand_ins = {}; // the primes that strided placements have in place of symbols
};
/// Raises for a rank outside of the mesh.
MeshPlace place_in(const DeviceMesh& mesh, int64_t rank);

/// The indices of a dim that a rank holds, as in weft/core/shard_math.h, for sizes that may be expressions.
struct Part {
  Size begin;
  Size length;
};

/// Shard `index` of `length` indices that are divided into `parts`: each has ceil(length / parts), the last ones fewer
/// or none.
Part chunk(const Size& length, int64_t parts, int64_t index);
/// The size of the first shard, which is the largest.
Size chunk_length(const Size& length, int64_t parts);

/// a / b if b divides a for all values of the symbols: 4*s0 by 2*s0 is 2. Nothing if that is not known, as for s0 by 2.
std::optional<Size> quotient(const Size& a, const Size& b);

/// The number of indices of a dim that the rank holds. Raises for a strided shard unless its size is known to divide
/// evenly.
Size local_size(const Size& size, int64_t tensor_dim, const Layout& layout, const MeshPlace& place);
Sizes local_sizes(const Sizes& sizes, const Layout& layout, const MeshPlace& place);
/// The type of the value's local tensor on the rank. Its dims have the memory order of the global tensor. The type of a
/// number is unchanged.
Type local_type(const Value& value, const MeshPlace& place);

} // namespace weft::graph
