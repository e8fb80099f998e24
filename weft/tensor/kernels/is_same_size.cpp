#include "weft/tensor/kernels/kernels.h"

#include <ATen/core/Tensor.h>

namespace weft {

namespace {

bool is_same_size(const at::Tensor& self, const at::Tensor& other) {
  return self.sizes() == other.sizes();
}

} // namespace

void register_is_same_size(torch::Library& library) {
  library.impl("is_same_size", TORCH_FN(is_same_size));
}

} // namespace weft
