#include "weft/core/layout_algebra.h"

#include <algorithm>

namespace weft {

namespace {

bool is_average(const Placement& placement) {
  return placement.is_partial() && placement.reduce_op() == ReduceOp::Avg;
}

/// The layout with `placement` on the mesh dims whose placement the predicate takes.
template <class Predicate>
Layout replace_where(const Layout& layout, const Predicate& takes, const Placement& placement) {
  auto result = layout;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (takes(layout[m])) {
      result = result.with(m, placement);
    }
  }
  return result;
}

} // namespace

Layout replicated(const DeviceMesh& mesh) {
  return Layout(Placements(mesh.ndim(), Replicate()));
}

Layout without_partial(const Layout& layout) {
  return replace_where(layout, [](const Placement& placement) { return placement.is_partial(); }, Replicate());
}

Layout with_sums_for_averages(const Layout& layout) {
  return replace_where(layout, is_average, Partial());
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

} // namespace weft
