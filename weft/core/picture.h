#pragma once

#include "weft/core/tensor_spec.h"

namespace weft {

/// Which ranks hold which part of a tensor, as text for the terminal. Replicas stand side by side, terms of a partial
/// value are joined by "+":
///
///   f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}
///            0..15
///          ┌───────┐
///     0..3 │  0 1  │
///          ├───────┤
///     4..7 │  2 3  │
///          └───────┘
///
/// A tensor of more than two dims is drawn along the first two that are cut (or the first two where none is); ranks
/// that hold different parts of the other dims stand side by side too.
std::string draw(const TensorSpec& spec);

/// The same picture as an SVG image, for a notebook; parts that the same ranks hold have one colour.
std::string draw_svg(const TensorSpec& spec);

} // namespace weft
