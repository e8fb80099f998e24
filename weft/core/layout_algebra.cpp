#include "weft/core/layout_algebra.h"

#include <algorithm>

namespace weft {

namespace {

bool is_average(const Placement& placement) {
  return placement.is_partial() && placement.reduce_op() == ReduceOp::Avg;
}

/// The layout with `placement` on every mesh dim for which `is_taken` is true.
template <class Predicate>
Layout replace_where(const Layout& layout, const Predicate& is_taken, const Placement& placement) {
  auto result = layout;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (is_taken(m)) {
      result = result.with(m, placement);
    }
  }
  return result;
}

} // namespace

Layout replicated(const DeviceMesh& mesh) {
  return Layout(Placements(mesh.ndim(), Replicate()));
}

bool is_replicated(const Layout& layout) {
  return !layout.has_shard() && !layout.has_partial();
}

Layout replicated_where(const Layout& layout, c10::function_ref<bool(int64_t mesh_dim)> is_taken) {
  return replace_where(layout, is_taken, Replicate());
}

Layout without_partial(const Layout& layout) {
  return replace_where(layout, [&](int64_t m) { return layout[m].is_partial(); }, Replicate());
}

Layout map_shards(const Layout& layout, c10::function_ref<Placement(const Placement&)> change) {
  Placements placements;
  c10::SmallVector<int64_t, kMaxMeshDims> turns;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    placements.push_back(layout[m].is_shard() ? change(layout[m]) : layout[m]);
    turns.push_back(layout.shard_position(m));
  }
  return Layout(placements, turns);
}

Layout with_sums_for_averages(const Layout& layout) {
  return replace_where(layout, [&](int64_t m) { return is_average(layout[m]); }, Partial());
}

int64_t averaged_over(const TensorSpec& spec) {
  int64_t ranks = 1;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    ranks *= is_average(spec.layout()[m]) ? spec.mesh().size(m) : 1;
  }
  return ranks;
}

bool is_linear(const Layout& layout) {
  const auto placements = layout.placements();
  return std::all_of(placements.begin(), placements.end(), [](const Placement& placement) {
    return !placement.is_partial() || placement.reduce_op() == ReduceOp::Sum || is_average(placement);
  });
}

bool partials_commute(const Layout& layout) {
  for (const auto& a : layout.placements()) {
    for (const auto& b : layout.placements()) {
      if (a.is_partial() && b.is_partial() && !commute(a.reduce_op(), b.reduce_op())) {
        return false;
      }
    }
  }
  return true;
}

bool is_refused(const Layout& source, const Layout& target) {
  for (int64_t m = 0; m < source.ndim(); ++m) {
    if (source[m].is_shard() && target[m].is_partial()) {
      return true;
    }
  }
  return false;
}

} // namespace weft
