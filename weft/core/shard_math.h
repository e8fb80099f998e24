#pragma once

#include "weft/core/layout.h"

#include <c10/util/DimVector.h>

namespace weft {

/// Which part of a tensor a rank holds. This file is the only one that knows; everything else asks it.
///
/// A tensor dim is cut by mesh dims in the order the layout states. Every cut follows torch.chunk: pieces of
/// ceil(size / parts), the last ones shorter or empty.

/// The indices begin, begin + 1, ..., begin + length - 1 of a tensor dim.
struct Run {
  int64_t begin;
  int64_t length;
  friend bool operator==(const Run&, const Run&) = default;
};

/// The indices a rank holds of one tensor dim, in the order it holds them. At least one run; an empty shard is one run
/// of length 0. Unstrided shards are always one run.
using Runs = c10::SmallVector<Run, 1>;

/// Piece `index` of `parts` of a range of `length` indices.
Run chunk(int64_t length, int64_t parts, int64_t index);

/// What the rank at `coordinate` holds of tensor dim `tensor_dim`, which has `size` indices.
Runs local_runs(
    int64_t size,
    int64_t tensor_dim,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);

/// A rank's local shape, and the global index of its first element (of its first run where a cut is strided).
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

/// The local shape of the first rank along every mesh dim, which no rank's exceeds, since every cut follows torch.chunk:
/// the same on every rank.
///
///   largest_local_shape({5, 3}, Layout({Shard(0)}), {4})   // {2, 3}
c10::DimVector largest_local_shape(c10::IntArrayRef sizes, const Layout& layout, c10::IntArrayRef mesh_shape);

/// Indices that two ranks have in common, as positions in the local dims of both.
struct Overlap {
  int64_t held_begin;
  int64_t wanted_begin;
  int64_t length;
  friend bool operator==(const Overlap&, const Overlap&) = default;
};

/// What of `wanted` is in `held`, in the order of `wanted`.
c10::SmallVector<Overlap, 1> overlap(const Runs& held, const Runs& wanted);

} // namespace weft
