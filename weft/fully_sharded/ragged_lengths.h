#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <vector>

namespace weft {

/// Divides tensors that are consecutive in one buffer between members: each holds a range of the buffer, as close to an
/// equal share as boundaries at rows (indices of dim 0) allow. Returns for each tensor the rows of every member, the lengths of a
/// RaggedShard. Most small tensors belong to one member.
///
///   ragged_lengths({{6, 2}, {6}}, 2)   // {{5, 1}, {0, 6}}: the middle, element 9, is as near to row 5 as to row 4
std::vector<std::vector<int64_t>> ragged_lengths(c10::ArrayRef<c10::DimVector> shapes, int64_t members);

} // namespace weft
