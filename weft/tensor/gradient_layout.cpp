#include "weft/tensor/gradient_layout.h"

#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary.h"
#include "weft/tensor/from_local.h"
#include "weft/tensor/redistribute.h"

namespace weft {

namespace {

/// Some derivative formulas give a plain tensor of zeros, made of the shape alone: the same on every rank. It may be one
/// that has no memory.
at::Tensor replicated_constant(const at::Tensor& gradient, const DeviceMesh& mesh) {
  const auto local = gradient._is_zerotensor() ? at::zeros(gradient.sizes(), gradient.options()) : gradient;
  return from_local(local, mesh, all_replicated(mesh));
}

} // namespace

void keep_gradient_layout(const at::Tensor& leaf) {
  const auto& spec = *as_dtensor(leaf)->spec();
  leaf.register_hook([mesh = spec.mesh(), layout = default_gradient_layout(spec.layout())](const at::Tensor& gradient) {
    const OperatorScope scope("gradient");
    const auto whole = is_dtensor(gradient) ? gradient : replicated_constant(gradient, mesh);
    return as_dtensor(whole)->spec()->layout() == layout ? whole : redistribute(whole, layout);
  });
}

} // namespace weft
