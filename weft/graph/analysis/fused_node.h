#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A node that is a collective and matmuls in one: weft::all_gather_matmul, weft::matmul_reduce_scatter and the scaled ones.
struct FusedNode {
  bool is_gather = false;
  bool is_scaled = false;
  int64_t dim = 0;
  int64_t chunks = 1;
  std::string group;
  /// What is sent: the shard, or a tensor of the dtype and the sizes that the pieces have together.
  const Value* moved = nullptr;
};
std::optional<FusedNode> fused_node(const Node& node);

/// Whether the operator is one of them.
bool is_fused_operator(const Node& node);
/// The position of its argument `group`.
size_t group_argument(const Node& fused);

/// The mesh dims of a group that is called by them ("dp,tp"); nothing for another name.
std::optional<MeshDims> mesh_dims_named(const DeviceMesh& mesh, const std::string& group);

/// In a program of whole tensors: the step that runs inside, as a redistribution by itself would be.
Step step_inside(const Node& node, const FusedNode& fused, const DeviceMesh& mesh);

} // namespace weft::graph
