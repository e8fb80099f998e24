#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

at::Tensor value_selecting_backward(
    const at::Tensor& grad,
    int64_t dim,
    const at::Tensor& indices,
    c10::IntArrayRef sizes,
    bool keepdim) {
  const bool was_removed = !keepdim && !sizes.empty();
  const auto values = was_removed ? grad.unsqueeze(dim) : grad;
  const auto positions = was_removed ? indices.unsqueeze(dim) : indices;
  return grad.new_zeros(sizes).scatter(dim, positions, values);
}

at::Tensor cumulative_extreme_backward(
    const at::Tensor& grad,
    const at::Tensor& input,
    const at::Tensor& indices,
    int64_t dim) {
  return at::zeros_like(input).scatter_add(dim, indices, grad);
}

/// The identity depends on the shape only, so that it is equal on every rank.
at::Tensor trace_backward(const at::Tensor& grad, c10::IntArrayRef sizes) {
  return grad * at::eye(sizes[0], sizes[1], grad.options());
}

} // namespace

void register_selecting_backward(torch::Library& library) {
  library.impl("value_selecting_reduction_backward", TORCH_FN(value_selecting_backward));
  library.impl("trace_backward", TORCH_FN(trace_backward));
  library.impl("cummaxmin_backward", TORCH_FN(cumulative_extreme_backward));
}

} // namespace weft
