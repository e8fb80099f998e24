#include "weft/tensor/kernels/kernels.h"

#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <ATen/ops/to_compositeimplicitautograd_dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

namespace composite = at::compositeimplicitautograd;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using FormatOption = std::optional<at::MemoryFormat>;

at::Tensor without_data(const at::Tensor& tensor, at::ScalarType dtype, FormatOption format) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& impl = *as_dtensor(tensor);
  const auto& spec = *impl.spec();
  const auto options = at::TensorOptions(dtype).device(at::kMeta);
  const auto global = at::empty_like(at::empty_strided(spec.sizes(), spec.strides(), options), options, format);
  const auto local = at::empty_like(impl.local(), options, format);
  return make_dtensor(local, TensorSpec::make(spec.mesh(), spec.layout(), spec.sizes(), global.strides(), dtype));
}

struct ToMeta : torch::autograd::Function<ToMeta> {
  static at::Tensor forward(
      AutogradContext* /*context*/,
      const at::Tensor& tensor,
      at::ScalarType dtype,
      FormatOption format) {
    return without_data(tensor, dtype, format);
  }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& /*gradients*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "[to] a gradient with data is required, but got one on meta: the tensor was sent there. Detach it first.");
  }
};

/// Whether a call of `to` is for the kernel of this file.
bool loses_data(const at::Tensor& self, at::Device device) {
  return is_dtensor(self) && !self.is_meta() && device.is_meta();
}

at::Tensor to_meta(const at::Tensor& self, at::ScalarType dtype, FormatOption format) {
  return ToMeta::apply(self, dtype, format);
}

at::Tensor to_options(
    const at::Tensor& self,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout,
    std::optional<at::Device> device,
    std::optional<bool> pin_memory,
    bool non_blocking,
    bool copy,
    FormatOption format) {
  if (device && loses_data(self, *device)) {
    return to_meta(self, dtype.value_or(self.scalar_type()), format);
  }
  return composite::to(self, dtype, layout, device, pin_memory, non_blocking, copy, format);
}

at::Tensor to_device(
    const at::Tensor& self,
    at::Device device,
    at::ScalarType dtype,
    bool non_blocking,
    bool copy,
    FormatOption format) {
  if (loses_data(self, device)) {
    return to_meta(self, dtype, format);
  }
  return composite::to(self, device, dtype, non_blocking, copy, format);
}

at::Tensor to_other(
    const at::Tensor& self,
    const at::Tensor& other,
    bool non_blocking,
    bool copy,
    FormatOption format) {
  if (loses_data(self, other.device())) {
    return to_meta(self, other.scalar_type(), format);
  }
  return composite::to(self, other, non_blocking, copy, format);
}

} // namespace

void register_to_meta(torch::Library& library) {
  library.impl("to.dtype_layout", TORCH_FN(to_options));
  library.impl("to.device", TORCH_FN(to_device));
  library.impl("to.other", TORCH_FN(to_other));
}

} // namespace weft
