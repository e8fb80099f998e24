#pragma once

#include "weft/core/tensor_spec.h"

namespace weft {

/// A picture, as text for the terminal, of which ranks hold which indices of a tensor. Replicas are drawn next to each
/// other, terms of a partial value are joined by "+":
///
///   f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}
///            0..15
///          ┌───────┐
///     0..3 │  0 1  │
///          ├───────┤
///     4..7 │  2 3  │
///          └───────┘
///
/// A tensor of more than two dims is drawn along its first two sharded dims (or its first two dims if none is sharded).
/// Ranks that hold different indices of the other dims are drawn next to each other too.
std::string draw(const TensorSpec& spec);

/// The same picture as an SVG image, for a notebook; blocks held by the same ranks have one colour.
std::string draw_svg(const TensorSpec& spec);

} // namespace weft
