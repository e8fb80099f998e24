#include "weft/nn/cross.h"

#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/redistribute_once.h"
#include "weft/tensor/boundary/to_local.h"

namespace weft::nn {

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
    // gradient.
    return is_there && !crossing.to->is_replicate() ? t : redistribute_once(t, layout, &crossing);
  });
}

at::Tensor Crosser::leave(const at::Tensor& tensor, const Crossing& crossing, bool as_local) const {
  return crossed(tensor, crossing, as_local, [](const at::Tensor& t, const Layout& layout, bool is_there) {
    return is_there ? t : redistribute(t, layout);
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
  return from_local(tensor, mesh_, {*crossing.from});
}

Layout Crosser::target(const at::Tensor& tensor, Placement placement) const {
  const auto& spec = *as_dtensor(tensor)->spec();
  TORCH_CHECK_VALUE(
      spec.mesh() == mesh_, where_, "a tensor on the plan's mesh ", mesh_, " is required, but got one on ", spec.mesh(),
      ".");
  return spec.layout().with(mesh_dim_, placement.normalized(tensor.dim()));
}

} // namespace weft::nn
