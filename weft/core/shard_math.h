#pragma once

#include "weft/core/layout.h"

#include <c10/util/DimVector.h>

namespace weft {

/// The indices of a tensor that a rank holds. No other file computes them: all code calls these functions.
///
/// The mesh dims divide a tensor dim in the shard order of the layout. A division follows torch.chunk, with shards of
/// ceil(size / ranks) indices, of which the last ones may be shorter or empty; or the lengths of a ragged shard.

/// The indices begin, begin + 1, ..., begin + length - 1 of a tensor dim.
struct Run {
  int64_t begin;
  int64_t length;
  friend bool operator==(const Run&, const Run&) = default;
};

/// The indices of one tensor dim that a rank holds, in the order in which it holds them. There is at least one run; an
/// empty shard is one run of length 0. Shards that are not strided are always one run.
using Runs = c10::SmallVector<Run, 1>;

/// Chunk `index` of the `count` chunks of a range of `length` indices, as torch.chunk divides it.
Run chunk(int64_t length, int64_t count, int64_t index);

/// The blocks into which a shard divides a range of `length` indices, before each of them is divided between the ranks.
Runs blocks(int64_t length, const Placement& placement);
/// Whether the blocks have exactly their sizes, and the ranks equal shares of each; false for ragged shards.
bool divides_blocks(int64_t length, int64_t ranks, const Placement& placement);

/// The indices of tensor dim `tensor_dim`, of `size` indices, that the rank at `coordinate` holds.
Runs local_runs(
    int64_t size,
    int64_t tensor_dim,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);

/// A rank's local shape, and the global index of its first element (of its first run if a shard is strided).
///
///   local_shape_and_offset({5, 3}, Layout({Shard(0)}), {4}, {2})   // shape {1, 3}, offset {4, 0}
struct LocalBlock {
  c10::DimVector shape;
  c10::DimVector offset;
};
LocalBlock local_shape_and_offset(
    c10::IntArrayRef sizes,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);

/// The most that any rank holds of each tensor dim. Every rank gets the same result.
///
///   largest_local_shape({5, 3}, Layout({Shard(0)}), {4})   // {2, 3}
c10::DimVector largest_local_shape(c10::IntArrayRef sizes, const Layout& layout, c10::IntArrayRef mesh_shape);

/// Consecutive indices that two ranks both hold, as positions in the local dims of both.
struct Intersection {
  int64_t held_begin;
  int64_t wanted_begin;
  int64_t length;
  friend bool operator==(const Intersection&, const Intersection&) = default;
};

/// The intersection of two lists of runs, in the order of `wanted`.
c10::SmallVector<Intersection, 1> intersect(const Runs& held, const Runs& wanted);

} // namespace weft
