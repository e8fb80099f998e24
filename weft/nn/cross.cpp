#include "weft/nn/cross.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/redistribute_once.h"
#include "weft/tensor/boundary/to_local.h"

namespace weft::nn {

namespace {

/// The placement of a plain tensor. On a mesh of one rank all placements stand for the same local tensor, so that it is
/// the one after the crossing.
Placement placement_of_plain(const Crossing& crossing, const DeviceMesh& mesh) {
  const bool is_crossed = mesh.size() == 1 && crossing.to && !crossing.to->is_partial();
  return is_crossed ? *crossing.to : *crossing.from;
}

} // namespace

template <class Move>
at::Tensor Crosser::crossed(const at::Tensor& tensor, const Crossing& crossing, bool as_local, const Move& move) const {
  auto result = distributed(tensor, crossing);
  if (!is_dtensor(result)) {
    return result;
  }
  if (crossing.to) {
    const auto layout = target(result, *crossing.to);
    const bool is_there = as_dtensor(result)->spec()->layout() == layout;
    result = move(result, layout, is_there);
  }
  return as_local ? to_local(result) : result;
}

at::Tensor Crosser::enter(const at::Tensor& tensor, const Crossing& crossing, bool as_local) const {
  return crossed(tensor, crossing, as_local, [&](const at::Tensor& t, const Layout& layout, bool is_there) {
    // If a tensor has the wanted shards, its gradient has them too; only a replicated tensor may have a partial
    // gradient, which has to be reduced unless there is only one rank.
    const bool keeps_gradient = !crossing.to->is_replicate() || mesh_.size() == 1;
    return is_there && keeps_gradient ? t : redistribute_once(t, layout, &crossing);
  });
}

at::Tensor Crosser::leave(const at::Tensor& tensor, const Crossing& crossing, bool as_local) const {
  return crossed(tensor, crossing, as_local, [&](const at::Tensor& t, const Layout& layout, bool is_there) {
    // On a mesh of one rank the local tensor is the same before and after the crossing.
    const bool has_local = as_local && mesh_.size() == 1 && !is_refused(as_dtensor(t)->spec()->layout(), layout);
    return is_there || has_local ? t : redistribute(t, layout);
  });
}

at::Tensor Crosser::distributed(const at::Tensor& tensor, const Crossing& crossing) const {
  if (!tensor.defined() || is_dtensor(tensor) || (!crossing.from && !crossing.to)) {
    return tensor;
  }
  TORCH_CHECK_VALUE(
      mesh_.ndim() == 1, where_,
      "a distributed tensor is required on a mesh of several dims, but got a plain one of shape ", tensor.sizes(),
      ". Use distribute_tensor, or from_local, which states its placement on every dim of ", mesh_, ".");
  TORCH_CHECK_VALUE(
      crossing.from, where_, "a distributed tensor is required, but got a plain one of shape ", tensor.sizes(),
      ". State the placement of a plain tensor in the plan: \"S(1) -> ", crossing.to->to_string(), "\".");
  return from_local(tensor, mesh_, {placement_of_plain(crossing, mesh_)});
}

Layout Crosser::target(const at::Tensor& tensor, Placement placement) const {
  const auto& spec = *as_dtensor(tensor)->spec();
  TORCH_CHECK_VALUE(
      spec.mesh() == mesh_, where_, "a tensor on the plan's mesh ", mesh_, " is required, but got one on ", spec.mesh(),
      ".");
  return spec.layout().with(mesh_dim_, placement.normalized(tensor.dim()));
}

} // namespace weft::nn
