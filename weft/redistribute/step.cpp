#include "weft/redistribute/step.h"

#include <array>

namespace weft {

namespace {

constexpr std::array<std::string_view, 6> kNames = {"slice",          "all_gather", "all_to_all",
                                                    "reduce_scatter", "all_reduce", "make_partial"};

bool contains(const MeshDims& dims, int64_t mesh_dim) {
  return std::find(dims.begin(), dims.end(), mesh_dim) != dims.end();
}

bool same_cut(const Layout& a, const Layout& b, int64_t mesh_dim) {
  return a[mesh_dim] == b[mesh_dim];
}

/// Whether the cuts that `a` makes on a tensor dim are the first ones of those that `b` makes.
bool is_prefix(const MeshDims& cuts_a, const MeshDims& cuts_b, const Layout& a, const Layout& b) {
  if (cuts_a.size() > cuts_b.size()) {
    return false;
  }
  for (size_t i = 0; i < cuts_a.size(); ++i) {
    if (cuts_a[i] != cuts_b[i] || !same_cut(a, b, cuts_a[i])) {
      return false;
    }
  }
  return true;
}

/// Adds the mesh dims that cut after one of the group: their pieces move when its pieces do.
void add_later_cuts(const MeshDims& cuts, MeshDims& group) {
  bool later = false;
  for (const auto m : cuts) {
    if (contains(group, m)) {
      later = true;
    } else if (later) {
      group.push_back(m);
    }
  }
}

std::string placement_text(const Layout& layout, int64_t mesh_dim, bool show_turns) {
  auto text = layout[mesh_dim].to_string();
  if (show_turns && layout[mesh_dim].is_shard() && layout.shard_order(layout[mesh_dim].dim()).size() > 1) {
    text += "[" + std::to_string(layout.turn(mesh_dim)) + "]";
  }
  return text;
}

std::string side_text(const Layout& layout, const MeshDims& mesh_dims, bool show_turns) {
  std::string text;
  for (const auto m : mesh_dims) {
    text += (text.empty() ? "" : ",") + placement_text(layout, m, show_turns);
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
  const bool show_turns = !before.has_default_order() || !after.has_default_order();
  return std::string(weft::to_string(kind)) + "(" + mesh.dims_text(mesh_dims) + ": " +
      side_text(before, mesh_dims, show_turns) + " -> " + side_text(after, mesh_dims, show_turns) + ")";
}

MeshDims real_cuts(const Layout& layout, int64_t tensor_dim, c10::IntArrayRef mesh_shape) {
  auto cuts = layout.shard_order(tensor_dim);
  cuts.erase(std::remove_if(cuts.begin(), cuts.end(), [&](int64_t m) { return mesh_shape[m] == 1; }), cuts.end());
  return cuts;
}

Step move_step(const Layout& before, const Layout& after, c10::IntArrayRef mesh_shape, int64_t tensor_rank) {
  bool only_cuts = true;
  bool only_joins = true;
  MeshDims group;
  for (int64_t m = 0; m < before.ndim(); ++m) {
    if (before[m] != after[m] || before.turn(m) != after.turn(m)) {
      group.push_back(m);
    }
  }
  c10::SmallVector<std::pair<MeshDims, MeshDims>, 4> cuts;
  for (int64_t d = 0; d < tensor_rank; ++d) {
    const auto& [from, to] = cuts.emplace_back(real_cuts(before, d, mesh_shape), real_cuts(after, d, mesh_shape));
    only_cuts = only_cuts && is_prefix(from, to, before, after);
    only_joins = only_joins && is_prefix(to, from, after, before);
  }
  const auto kind = only_cuts ? StepKind::Slice : only_joins ? StepKind::AllGather : StepKind::AllToAll;
  if (communicates(kind)) {
    const auto has_one_rank = [&](int64_t m) { return mesh_shape[m] == 1; };
    group.erase(std::remove_if(group.begin(), group.end(), has_one_rank), group.end());
    for (size_t known = 0; known != group.size();) {
      known = group.size();
      for (const auto& [from, to] : cuts) {
        add_later_cuts(from, group);
        add_later_cuts(to, group);
      }
    }
    std::sort(group.begin(), group.end());
  }
  return {kind, std::move(group), before, after};
}

bool same_data(const Layout& a, const Layout& b, c10::IntArrayRef mesh_shape, int64_t tensor_rank) {
  for (int64_t m = 0; m < a.ndim(); ++m) {
    if (mesh_shape[m] > 1 && a[m] != b[m]) {
      return false;
    }
  }
  for (int64_t d = 0; d < tensor_rank; ++d) {
    if (real_cuts(a, d, mesh_shape) != real_cuts(b, d, mesh_shape)) {
      return false;
    }
  }
  return true;
}

} // namespace weft
