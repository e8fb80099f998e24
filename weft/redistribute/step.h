#pragma once

#include "weft/core/tensor_spec.h"

namespace weft {

enum class StepKind : uint8_t {
  Slice, // each rank keeps a slice of its local tensor; also any change on a mesh dim of one rank
  AllGather,
  AllToAll, // any other transfer: every rank gets what it lacks from a rank that has it
  ReduceScatter,
  AllReduce,
  MakePartial, // R to P: the first rank keeps the value, the others hold the neutral element
};

std::string_view to_string(StepKind kind);
bool communicates(StepKind kind);

/// One collective, or one local change, of a redistribution plan.
struct Step {
  StepKind kind;
  MeshDims mesh_dims; // of the group, ascending
  Layout before;
  Layout after;

  /// "all_gather(dp,tp: S(0),S(1) -> R,R)"
  std::string to_string(const DeviceMesh& mesh) const;
  friend bool operator==(const Step&, const Step&) = default;
};

/// How a step reduces. Averages and sums over different mesh dims are one sum of terms that are divided first.
///
///   all_reduce(dp,tp: P(avg),P(sum) -> R,R) on mesh(dp=2,tp=4)   // {Sum, 2}
///   all_reduce(dp: P(avg) -> R)                                  // {Avg, 1}
struct Reduction {
  ReduceOp op;
  int64_t divisor; // of every rank's term
};
Reduction reduction_of(const Step& step, c10::IntArrayRef mesh_shape);

/// The shard order of a tensor dim without the mesh dims of one rank, which do not divide it.
MeshDims effective_shard_order(const Layout& layout, int64_t tensor_dim, c10::IntArrayRef mesh_shape);

/// The one step that redistributes between two layouts with the same partial mesh dims, over as few mesh dims as
/// possible.
Step redistribute_step(const Layout& before, const Layout& after, c10::IntArrayRef mesh_shape, int64_t tensor_ndim);

/// Whether every rank has the same local tensor under both layouts.
bool same_data(const Layout& a, const Layout& b, c10::IntArrayRef mesh_shape, int64_t tensor_ndim);

} // namespace weft
