#include "weft/tensor/decompositions/reduced_dims.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

constexpr const char* kRmsNormBackward = "aten::_fused_rms_norm_backward";

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

/// Whether no rank has all of a normalized row, which the fused kernel needs.
bool shards_rows(const at::Tensor& input, int64_t first_normalized) {
  const auto* impl = as_dtensor(input);
  const auto placements = impl == nullptr ? c10::ArrayRef<Placement>() : impl->spec()->placements();
  return std::any_of(placements.begin(), placements.end(), [&](const Placement& placement) {
    return placement.is_shard() && placement.dim() >= first_normalized;
  });
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
    const auto means = (scaled * normalized).mean(range(first, input.dim()), /*keepdim=*/true);
    const auto along = is_dtensor(input) ? reduced_where_sharded(kRmsNormBackward, means, input) : means;
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
  const auto ndim = static_cast<int64_t>(normalized_shape.size());
  if (input.is_cuda() && !at::GradMode::is_enabled() && !shards_rows(input, input.dim() - ndim)) {
    const at::AutoDispatchBelowADInplaceOrView by_rule;
    return at::_fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, wanted);
  }
  return from_operators(grad_out, input, ndim, rstd, weight, wanted);
}

} // namespace

void register_rms_norm_backward(torch::Library& autograd) {
  autograd.impl("_fused_rms_norm_backward", TORCH_FN(rms_norm_backward));
}

} // namespace weft
