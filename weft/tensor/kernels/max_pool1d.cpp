#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

at::Tensor max_pool1d(
    const at::Tensor& self,
    c10::IntArrayRef kernel_size,
    c10::IntArrayRef stride,
    c10::IntArrayRef padding,
    c10::IntArrayRef dilation,
    bool ceil_mode) {
  return std::get<0>(at::max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode));
}

} // namespace

void register_max_pool1d(torch::Library& library) {
  library.impl("max_pool1d", TORCH_FN(max_pool1d));
}

} // namespace weft
