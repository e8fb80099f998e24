#include "weft/fully_sharded/gradient_terms.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"

namespace weft {

namespace {

/// The placement of a term on a mesh dim that is not that of the shards.
Placement kept(const Placement& gradient, const Placement& shard) {
  return gradient == Partial() && shard.is_replicate() ? gradient : shard;
}

/// Derivative formulas may give a plain constant, the same on all ranks.
at::Tensor distributed_on(const DeviceMesh& mesh, const at::Tensor& gradient) {
  return is_dtensor(gradient) ? gradient : from_local(gradient, mesh, replicated(mesh));
}

/// Redistributes, also from shards to terms: a value that is no sum yet is that of one rank and zeros of the others.
at::Tensor to_terms(const at::Tensor& gradient, const Layout& layout) {
  const auto& before = as_dtensor(gradient)->spec()->layout();
  const auto reduced =
      replicated_where(layout, [&](int64_t m) { return layout[m].is_partial() && before[m] != layout[m]; });
  return before == layout ? gradient : redistribute(redistribute(gradient, reduced), layout);
}

} // namespace

GradientTerm term_in_global_view(
    const at::Tensor& gradient,
    const SpecPtr& shard,
    const ShardDims& dims,
    const std::optional<Layout>& known) {
  const auto& mesh = shard->mesh();
  const auto distributed = distributed_on(mesh, gradient);
  const auto& before = as_dtensor(distributed)->spec()->layout();
  auto layout = shard->layout();
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    const auto placement = mesh.name(m) == dims.shard ? Partial() : known ? (*known)[m] : kept(before[m], layout[m]);
    layout = placement == layout[m] ? layout : layout.with(m, placement);
  }
  return {as_dtensor(to_terms(distributed, layout))->local(), layout};
}

GradientTerm term_of_own_data(
    const at::Tensor& gradient,
    const SpecPtr& shard,
    const ShardDims& dims,
    const std::optional<Layout>& known) {
  const auto& mesh = shard->mesh();
  auto layout = shard->layout();
  if (dims.replicate) {
    layout = layout.with(mesh.dim(*dims.replicate), Partial(ReduceOp::Avg));
  }
  std::vector<std::string> others;
  for (const auto& name : mesh.names()) {
    if (name != dims.shard && name != dims.replicate) {
      others.push_back(name);
    }
  }
  if (others.empty()) {
    return {gradient, layout};
  }
  const auto distributed = distributed_on(mesh.submesh(others), gradient);
  const auto& spec = *as_dtensor(distributed)->spec();
  auto on_others = spec.layout();
  for (int64_t other = 0; other < spec.mesh().ndim(); ++other) {
    const auto m = mesh.dim(spec.mesh().name(other));
    const auto placement = known ? (*known)[m] : kept(on_others[other], layout[m]);
    on_others = placement == on_others[other] ? on_others : on_others.with(other, placement);
    layout = placement == layout[m] ? layout : layout.with(m, placement);
  }
  return {as_dtensor(to_terms(distributed, on_others))->local(), layout};
}

} // namespace weft
