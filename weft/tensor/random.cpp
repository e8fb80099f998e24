#include "weft/tensor/random.h"

#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/install_dispatch.h"
#include "weft/tensor/random/random_fill.h"

#include <ATen/ops/empty.h>

namespace weft {

namespace {

at::Tensor make_random(
    const char* where,
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const Distribution& distribution,
    const RandomOptions& options) {
  install_dispatch();
  const auto spec = TensorSpec::make(mesh, layout, sizes, options.dtype);
  TORCH_CHECK_VALUE(
      !spec->layout().has_partial(), "[", where, "] placements R and S are required, but got ", layout,
      ". A partial value comes out of operators only; use from_local to make one.");
  const auto local =
      at::empty(spec->local_shape_and_offset().shape, at::TensorOptions(options.dtype).device(mesh.device_type()));
  fill_random(local, *spec, distribution, options.generator);
  return make_dtensor(local, spec).set_requires_grad(options.requires_grad);
}

} // namespace

at::Tensor rand(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout, const RandomOptions& options) {
  return make_random("rand", sizes, mesh, layout, Distribution::uniform(0, 1), options);
}

at::Tensor randn(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout, const RandomOptions& options) {
  return make_random("randn", sizes, mesh, layout, Distribution::normal(0, 1), options);
}

} // namespace weft
