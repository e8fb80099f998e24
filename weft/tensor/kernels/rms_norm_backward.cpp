#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <numeric>

namespace weft {

namespace {

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

std::tuple<at::Tensor, at::Tensor> from_operators(
    const at::Tensor& grad_out,
    const at::Tensor& input,
    int64_t normalized_ndim,
    const at::Tensor& rstd,
    const std::optional<at::Tensor>& weight,
    std::array<bool, 2> wanted) {
  const auto first = input.dim() - normalized_ndim;
  const auto grad = grad_out.to(rstd.scalar_type());
  const auto normalized = input.to(rstd.scalar_type()) * rstd;
  at::Tensor grad_input;
  at::Tensor grad_weight;
  if (wanted[0]) {
    const auto scaled = weight && weight->defined() ? grad * *weight : grad;
    const auto along = (scaled * normalized).mean(range(first, input.dim()), /*keepdim=*/true);
    grad_input = ((scaled - normalized * along) * rstd).to(input.scalar_type());
  }
  if (wanted[1] && weight && weight->defined()) {
    const auto terms = grad * normalized;
    grad_weight = (first == 0 ? terms : terms.sum(range(0, first))).to(weight->scalar_type());
  }
  return {grad_input, grad_weight};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& grad_out,
    const at::Tensor& input,
    c10::IntArrayRef normalized_shape,
    const at::Tensor& rstd,
    const std::optional<at::Tensor>& weight,
    std::array<bool, 2> wanted) {
  if (input.is_cuda() && !at::GradMode::is_enabled()) {
    const at::AutoDispatchBelowADInplaceOrView by_rule;
    return at::_fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, wanted);
  }
  return from_operators(grad_out, input, static_cast<int64_t>(normalized_shape.size()), rstd, weight, wanted);
}

} // namespace

void register_rms_norm_backward(torch::Library& autograd) {
  autograd.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
}

} // namespace weft
