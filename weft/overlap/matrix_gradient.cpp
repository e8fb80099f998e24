#include "weft/overlap/matrix_gradient.h"

#include <ATen/ops/mm.h>

namespace weft {

at::Tensor as_rows(const at::Tensor& tensor) {
  return tensor.dim() > 2 ? tensor.flatten(0, -2) : tensor.dim() == 1 ? tensor.unsqueeze(0) : tensor;
}

at::Tensor matrix_gradient(const at::Tensor& left, const at::Tensor& gradient, const at::Tensor& matrix) {
  const bool is_transposed = matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0) && matrix.size(0) > 1;
  const auto rows = as_rows(left);
  const auto gradients = as_rows(gradient);
  return is_transposed ? at::mm(gradients.t(), rows).t() : at::mm(rows.t(), gradients);
}

} // namespace weft
