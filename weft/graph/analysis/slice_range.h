#pragma once

#include "weft/graph/ir/node.h"

#include <optional>

namespace weft::graph {

/// The elements [begin, end) of a dim that a slice takes.
struct SliceRange {
  int64_t dim;
  int64_t begin;
  int64_t end;
};

/// Empty for other operators, and for a slice with steps or of a dim or to a place that is no number.
///
///   aten::slice.Tensor(%x: f32[2,8], -1, 4, 9)   dim 1, [4, 8)
std::optional<SliceRange> slice_range(const Node& node);

} // namespace weft::graph
