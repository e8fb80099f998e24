#include "weft/redistribute/step.h"

#include <array>

namespace weft {

namespace {

constexpr std::array<std::string_view, 6> kNames = {"slice",          "all_gather", "all_to_all",
                                                    "reduce_scatter", "all_reduce", "make_partial"};

bool contains(const MeshDims& dims, int64_t mesh_dim) {
  return std::find(dims.begin(), dims.end(), mesh_dim) != dims.end();
}

bool same_placement(const Layout& a, const Layout& b, int64_t mesh_dim) {
  return a[mesh_dim] == b[mesh_dim];
}

/// Whether the shards of a tensor dim by `a` are the first ones in the shard order of `b`.
bool is_prefix(const MeshDims& order_a, const MeshDims& order_b, const Layout& a, const Layout& b) {
  if (order_a.size() > order_b.size()) {
    return false;
  }
  for (size_t i = 0; i < order_a.size(); ++i) {
    if (order_a[i] != order_b[i] || !same_placement(a, b, order_a[i])) {
      return false;
    }
  }
  return true;
}

/// Adds the mesh dims that come after one of the group in a shard order: when shards of the group change, so do theirs.
void add_later_dims(const MeshDims& shard_order, MeshDims& group) {
  bool later = false;
  for (const auto m : shard_order) {
    if (contains(group, m)) {
      later = true;
    } else if (later) {
      group.push_back(m);
    }
  }
}

std::string placement_text(const Layout& layout, int64_t mesh_dim, bool show_positions) {
  auto text = layout[mesh_dim].to_string();
  if (show_positions && layout[mesh_dim].is_shard() && layout.shard_order(layout[mesh_dim].dim()).size() > 1) {
    text += "[" + std::to_string(layout.shard_position(mesh_dim)) + "]";
  }
  return text;
}

std::string side_text(const Layout& layout, const MeshDims& mesh_dims, bool show_positions) {
  std::string text;
  for (const auto m : mesh_dims) {
    text += (text.empty() ? "" : ",") + placement_text(layout, m, show_positions);
  }
  return text;
}

} // namespace

std::string_view to_string(StepKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

bool communicates(StepKind kind) {
  return kind != StepKind::Slice && kind != StepKind::MakePartial;
}

std::string Step::to_string(const DeviceMesh& mesh) const {
  const bool show_positions = !before.has_default_order() || !after.has_default_order();
  return std::string(weft::to_string(kind)) + "(" + mesh.dims_text(mesh_dims) + ": " +
      side_text(before, mesh_dims, show_positions) + " -> " + side_text(after, mesh_dims, show_positions) + ")";
}

Reduction reduction_of(const Step& step, c10::IntArrayRef mesh_shape) {
  const auto first = step.before[step.mesh_dims[0]].reduce_op();
  int64_t averaged = 1;
  bool is_mixed = false;
  for (const auto m : step.mesh_dims) {
    const auto op = step.before[m].reduce_op();
    averaged *= op == ReduceOp::Avg ? mesh_shape[m] : 1;
    is_mixed = is_mixed || op != first;
  }
  return is_mixed ? Reduction{ReduceOp::Sum, averaged} : Reduction{first, 1};
}

MeshDims effective_shard_order(const Layout& layout, int64_t tensor_dim, c10::IntArrayRef mesh_shape) {
  auto order = layout.shard_order(tensor_dim);
  order.erase(std::remove_if(order.begin(), order.end(), [&](int64_t m) { return mesh_shape[m] == 1; }), order.end());
  return order;
}

Step redistribute_step(const Layout& before, const Layout& after, c10::IntArrayRef mesh_shape, int64_t tensor_ndim) {
  bool only_slices = true;
  bool only_joins = true;
  MeshDims group;
  for (int64_t m = 0; m < before.ndim(); ++m) {
    if (before[m] != after[m] || before.shard_position(m) != after.shard_position(m)) {
      group.push_back(m);
    }
  }
  c10::SmallVector<std::pair<MeshDims, MeshDims>, 4> orders;
  for (int64_t d = 0; d < tensor_ndim; ++d) {
    const auto& [from, to] =
        orders.emplace_back(effective_shard_order(before, d, mesh_shape), effective_shard_order(after, d, mesh_shape));
    only_slices = only_slices && is_prefix(from, to, before, after);
    only_joins = only_joins && is_prefix(to, from, after, before);
  }
  const auto kind = only_slices ? StepKind::Slice : only_joins ? StepKind::AllGather : StepKind::AllToAll;
  if (communicates(kind)) {
    const auto has_one_rank = [&](int64_t m) { return mesh_shape[m] == 1; };
    group.erase(std::remove_if(group.begin(), group.end(), has_one_rank), group.end());
    for (size_t known = 0; known != group.size();) {
      known = group.size();
      for (const auto& [from, to] : orders) {
        add_later_dims(from, group);
        add_later_dims(to, group);
      }
    }
    std::sort(group.begin(), group.end());
  }
  return {kind, std::move(group), before, after};
}

bool same_data(const Layout& a, const Layout& b, c10::IntArrayRef mesh_shape, int64_t tensor_ndim) {
  for (int64_t m = 0; m < a.ndim(); ++m) {
    if (mesh_shape[m] > 1 && a[m] != b[m]) {
      return false;
    }
  }
  for (int64_t d = 0; d < tensor_ndim; ++d) {
    if (effective_shard_order(a, d, mesh_shape) != effective_shard_order(b, d, mesh_shape)) {
      return false;
    }
  }
  return true;
}

} // namespace weft
