#include "weft/graph/analysis/fused_node.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace weft::graph {

namespace {

constexpr std::array<std::string_view, 4> kNames = {
    "weft::all_gather_matmul", "weft::all_gather_scaled_matmul", "weft::matmul_reduce_scatter",
    "weft::scaled_matmul_reduce_scatter"};

const c10::IValue& constant_named(const Node& node, std::string_view name) {
  const auto position = node.op()->schema().argumentIndexWithName(std::string(name));
  return node.arguments()[*position].constant();
}

} // namespace

std::optional<MeshDims> mesh_dims_named(const DeviceMesh& mesh, const std::string& group) {
  MeshDims dims;
  for (size_t begin = 0; begin <= group.size();) {
    const auto end = std::min(group.find(',', begin), group.size());
    const auto& names = mesh.names();
    const auto found = std::find(names.begin(), names.end(), group.substr(begin, end - begin));
    if (found == names.end()) {
      return std::nullopt;
    }
    dims.push_back(found - names.begin());
    begin = end + 1;
  }
  return dims;
}

bool is_fused_operator(const Node& node) {
  return node.op() != nullptr && std::find(kNames.begin(), kNames.end(), node.op()->schema().name()) != kNames.end();
}

size_t group_argument(const Node& fused) {
  return static_cast<size_t>(*fused.op()->schema().argumentIndexWithName("group"));
}

std::optional<FusedNode> fused_node(const Node& node) {
  if (!is_fused_operator(node)) {
    return std::nullopt;
  }
  const auto& name = node.op()->schema().name();
  FusedNode fused;
  fused.is_gather = name == kNames[0] || name == kNames[1];
  fused.is_scaled = name == kNames[1] || name == kNames[3];
  fused.dim = constant_named(node, "dim").toInt();
  fused.chunks = constant_named(node, "chunks").toInt();
  fused.group = constant_named(node, "group").toStringRef();
  fused.moved = fused.is_gather ? node.operand(0) : node.output();
  return fused;
}

Step step_inside(const Node& node, const FusedNode& fused, const DeviceMesh& mesh) {
  const auto named = mesh_dims_named(mesh, fused.group);
  TORCH_CHECK_VALUE(
      named, "[step_inside] the group of ", target_name(node), " must be called by dims of ", mesh.to_string(),
      ", but got \"", fused.group, "\".");
  const auto& dims = *named;
  auto other = *fused.moved->layout;
  for (const auto m : dims) {
    other = other.with(m, fused.is_gather ? Replicate() : Partial());
  }
  return fused.is_gather ? Step{StepKind::AllGather, dims, *node.operand(0)->layout, other}
                         : Step{StepKind::ReduceScatter, dims, other, *node.output()->layout};
}

} // namespace weft::graph
