#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A program as text; parse_program reads it. The text leaves out the program's tensors, its calling convention, and
/// the metadata of nodes other than their module. A name or a module with characters other than letters, digits,
/// underscores (and dots) is quoted.
///
///   program @ mesh(tp=4)
///   symbol s77 = 4 in [2, 1024]
///   input %p_up_weight: f32[32,16] grad {S(0)} = parameter "up.weight"
///   input %x: f32[s77,16] {R} = user
///     %linear: f32[s77,32] {S(1)} = aten::linear(%x, %p_up_weight) in up
///     %all_gather: f32[s77,32] {R} = all_gather(%linear, tp: {S(1)} -> {R})
///     %values: f32[s77,2] {R}, %indices: i64[s77,2] {R} = aten::topk(%all_gather, 2)
///   output %values = user
///   output None = user
///
/// The end of a call's line states what differs on local tensors: `sizes(size: [4,8] {S(1)})`, `lookup(...)`,
/// `fallback`.
std::string to_string(const Program& program);

/// The node's line. Mesh dims are printed as numbers because a graph does not know their names.
std::string to_string(const Node& node);

} // namespace weft::graph
