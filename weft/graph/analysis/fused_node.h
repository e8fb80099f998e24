#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A node that fuses a collective with matmuls: weft::all_gather_matmul, weft::matmul_reduce_scatter and the scaled
/// ones.
struct FusedNode {
  bool is_gather = false;
  bool is_scaled = false;
  int64_t dim = 0;
  int64_t chunks = 1;
  std::string group;
  /// What is communicated: the shard, or a tensor of the dtype and the sizes of all chunks together.
  const Value* moved = nullptr;
};
std::optional<FusedNode> fused_node(const Node& node);

/// Whether the operator is a fused one.
bool is_fused_operator(const Node& node);
/// The position of its argument `group`.
size_t group_argument(const Node& fused);

/// The mesh dims of a group that is named by its dims ("dp,tp"); nothing for another name.
std::optional<MeshDims> mesh_dims_named(const DeviceMesh& mesh, const std::string& group);

/// For a program of global tensors: the step that the fused node contains, as a separate redistribution would have it.
Step step_inside(const Node& node, const FusedNode& fused, const DeviceMesh& mesh);

} // namespace weft::graph
