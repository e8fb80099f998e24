#include "weft/tensor/factories.h"

#include "weft/core/checked_layout.h"
#include "weft/tensor/impl/install_dispatch.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

/// A distributed tensor whose local tensor on this rank is make(local shape, options of the local tensor).
template <class Make>
at::Tensor made(
    const char* where,
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FactoryOptions& options,
    at::ScalarType default_dtype,
    Make make) {
  install_dispatch();
  const auto placements = checked_without_partial(where, mesh, layout, static_cast<int64_t>(sizes.size()));
  const auto dtype = options.dtype.value_or(default_dtype);
  const auto spec = TensorSpec::make(mesh, placements, sizes, dtype);
  const auto local_options = at::TensorOptions(dtype).device(mesh.device_type());
  const auto local = make(c10::IntArrayRef(spec->local_shape_and_offset().shape), local_options);
  return make_dtensor(local, spec).set_requires_grad(options.requires_grad);
}

at::ScalarType default_dtype() {
  return c10::get_default_dtype_as_scalartype();
}

at::ScalarType dtype_of(const at::Scalar& value) {
  if (value.isBoolean()) {
    return at::kBool;
  }
  if (value.isComplex()) {
    return c10::toComplexType(default_dtype());
  }
  return value.isIntegral(/*includeBool=*/false) ? at::kLong : default_dtype();
}

} // namespace

at::Tensor zeros(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout, const FactoryOptions& options) {
  return made("zeros", sizes, mesh, layout, options, default_dtype(), [](auto shape, const auto& local_options) {
    return at::zeros(shape, local_options);
  });
}

at::Tensor ones(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout, const FactoryOptions& options) {
  return made("ones", sizes, mesh, layout, options, default_dtype(), [](auto shape, const auto& local_options) {
    return at::ones(shape, local_options);
  });
}

at::Tensor empty(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout, const FactoryOptions& options) {
  return made("empty", sizes, mesh, layout, options, default_dtype(), [](auto shape, const auto& local_options) {
    return at::empty(shape, local_options);
  });
}

at::Tensor full(
    c10::IntArrayRef sizes,
    const at::Scalar& value,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FactoryOptions& options) {
  return made("full", sizes, mesh, layout, options, dtype_of(value), [&](auto shape, const auto& local_options) {
    return at::full(shape, value, local_options);
  });
}

} // namespace weft
