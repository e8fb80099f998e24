#include "weft/core/checked_layout.h"

namespace weft {

namespace {

/// The layout with its shards only: R replaces every other placement, and a shard over a mesh dim of one rank.
Layout shards_of(const Layout& layout, const DeviceMesh& mesh) {
  return replicated_where(layout, [&](int64_t m) { return !layout[m].is_shard() || mesh.size(m) == 1; });
}

} // namespace

Layout checked_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t ndim) {
  TORCH_CHECK_VALUE(mesh.defined(), "[", where, "] a mesh is required, but got none. Make one with init_device_mesh.");
  TORCH_CHECK_VALUE(
      layout.ndim() == mesh.ndim(), "[", where, "] one placement per mesh dim is required, but got ", layout.ndim(),
      " placements ", layout, " for ", mesh, ". Use R for a mesh dim that does not shard the tensor.");
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    const auto& placement = layout[m];
    TORCH_CHECK_VALUE(
        !placement.is_ragged() || static_cast<int64_t>(placement.lengths().size()) == mesh.size(m), "[", where,
        "] a ragged shard requires one length for each of the ", mesh.size(m), " ranks of mesh dim ", mesh.name(m),
        ", but got ", placement, ". Give as many lengths.");
    if (C10_UNLIKELY(placement.has_unequal_blocks()) && mesh.world()) {
      mesh.world()->note_unequal_blocks(placement);
    }
  }
  return layout.normalized(ndim);
}

Layout checked_without_partial(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t ndim) {
  auto result = checked_layout(where, mesh, layout, ndim);
  TORCH_CHECK_VALUE(
      !result.has_partial(), "[", where, "] placements R and S are required, but got ", layout,
      ". A partial value comes out of operators only; use from_local to make one.");
  return result;
}

Layout checked_gradient_layout(const char* where, const TensorSpec& spec, const std::optional<Layout>& asked) {
  if (!asked) {
    return without_partial(spec.layout());
  }
  const auto& mesh = spec.mesh();
  TORCH_CHECK_VALUE(
      asked->ndim() == mesh.ndim(), "[", where, "] grad_placements must be one placement per mesh dim, but got ",
      asked->ndim(), " placements ", *asked, " for ", mesh, ".");
  auto result = asked->normalized(spec.dim());
  TORCH_CHECK_VALUE(
      is_linear(result), "[", where, "] grad_placements may be R, S, P(sum) and P(avg), but got ", result,
      ". The gradients of the ranks are added up, so a gradient cannot have another reduction.");
  TORCH_CHECK_VALUE(
      shards_of(result, mesh) == shards_of(spec.layout(), mesh), "[", where,
      "] grad_placements must shard the gradient as the tensor is sharded, but got ", result, " for ", spec,
      ". Redistribute the tensor first if its gradient needs other shards.");
  return result;
}

void check_has_gradient(const char* where, const TensorSpec& spec) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      is_linear(spec.layout()), "[", where, "] gradients of P(sum) and P(avg) are known, but got ", spec,
      ". Detach the tensor, or reduce it to R with operators that have a gradient.");
}

} // namespace weft
