#include "weft/tensor/kernels/kernels.h"

#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

at::Tensor& fill_diagonal(at::Tensor& self, const at::Scalar& value, bool wrap) {
  auto diagonal = at::zeros(self.sizes(), self.options().dtype(at::kBool));
  diagonal.fill_diagonal_(true, wrap);
  const ReplicatePlainScope scope;
  return self.masked_fill_(diagonal, value);
}

} // namespace

void register_fill_diagonal(torch::Library& library) {
  library.impl("fill_diagonal_", TORCH_FN(fill_diagonal));
}

} // namespace weft
