#pragma once

#include "weft/core/tensor_spec.h"

namespace weft {

enum class StepKind : uint8_t {
  Slice, // keeps a part of what the rank holds; also a change of name where a mesh dim has one rank
  AllGather,
  AllToAll, // any other move of data: every rank gets what it lacks from a rank that has it
  ReduceScatter,
  AllReduce,
  MakePartial, // R to P: the first rank keeps the value, the others hold the neutral element
};

std::string_view to_string(StepKind kind);
bool communicates(StepKind kind);

/// One collective, or one local change, on the way from one layout to another.
struct Step {
  StepKind kind;
  MeshDims mesh_dims; // whose ranks take part, ascending
  Layout before;
  Layout after;

  /// "all_gather(dp,tp: S(0),S(1) -> R,R)"
  std::string to_string(const DeviceMesh& mesh) const;
  friend bool operator==(const Step&, const Step&) = default;
};

/// The mesh dims that cut a tensor dim, first cut first, without those of one rank, which cut nothing.
MeshDims real_cuts(const Layout& layout, int64_t tensor_dim, c10::IntArrayRef mesh_shape);

/// The one step that moves data between two layouts with the same partial mesh dims, over as few mesh dims as possible.
Step move_step(const Layout& before, const Layout& after, c10::IntArrayRef mesh_shape, int64_t tensor_rank);

/// Whether every rank holds the same under both layouts.
bool same_data(const Layout& a, const Layout& b, c10::IntArrayRef mesh_shape, int64_t tensor_rank);

} // namespace weft
