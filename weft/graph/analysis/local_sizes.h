#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/analysis/trial_values.h"

namespace weft::graph {

/// The place of a rank in a mesh.
struct MeshPlace {
  std::vector<int64_t> shape;
  std::vector<int64_t> coordinate;
  StandIns stand_ins = {}; // what symbols are called in strided placements
};
/// Raises for a rank that is not in the mesh.
MeshPlace place_in(const DeviceMesh& mesh, int64_t rank);

/// The part of a dim that a rank holds: as weft/core/shard_math.h has it, of sizes that may be expressions.
struct Part {
  Size begin;
  Size length;
};

/// Piece `index` of `parts` of `length` indices: of ceil(length / parts), the last ones shorter or empty.
Part chunk(const Size& length, int64_t parts, int64_t index);
/// The size of the first, which is the largest.
Size chunk_length(const Size& length, int64_t parts);

/// a / b where b divides a whatever the symbols are: 4*s0 by 2*s0 is 2. Nothing where that is not known, as of s0 by 2.
std::optional<Size> quotient(const Size& a, const Size& b);

/// How many indices of a dim the rank holds. Raises for strided pieces of a size that they are not known to divide.
Size local_size(const Size& size, int64_t tensor_dim, const Layout& layout, const MeshPlace& place);
Sizes local_sizes(const Sizes& sizes, const Layout& layout, const MeshPlace& place);
/// The type of the rank's part of a value, whose dims lie in the order of the whole's; of a number, its own.
Type local_type(const Value& value, const MeshPlace& place);

} // namespace weft::graph
