#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace weft {

namespace {

using OptionalTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr const char* kLayerNorm = "aten::native_layer_norm";
constexpr const char* kRmsNorm = "aten::_fused_rms_norm";
constexpr const char* kLayerNormBackward = "aten::native_layer_norm_backward";

/// Whether a mesh dim shards one of the normalized dims, which are the last ones.
bool shards_normalized_dims(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const auto& input = *operands[*call.operand_of("input")];
  const auto shape = call.integers("normalized_shape");
  const auto ndim = static_cast<int64_t>(shape.size());
  const bool is_valid =
      ndim > 0 && ndim <= input.dim() && input.sizes().slice(input.dim() - ndim) == c10::IntArrayRef(shape);
  const auto placements = input.placements();
  return is_valid && input.numel() > 0 && std::any_of(placements.begin(), placements.end(), [&](const Placement& each) {
           return each.is_shard() && each.dim() >= input.dim() - ndim;
         });
}

bool is_there(const OptionalTensor& tensor) {
  return tensor && tensor->defined();
}

std::vector<int64_t> dims_between(int64_t begin, int64_t end) {
  std::vector<int64_t> dims(end - begin);
  std::iota(dims.begin(), dims.end(), begin);
  return dims;
}

std::vector<int64_t> normalized_dims(const at::Tensor& input, size_t count) {
  return dims_between(input.dim() - static_cast<int64_t>(count), input.dim());
}

/// The input with its partial values reduced, in the dtype in which it is normalized.
at::Tensor values_of(const char* op, const at::Tensor& input) {
  return move_implicitly(op, input, without_partial(as_dtensor(input)->spec()->layout()))
      .to(accumulation_dtype(input.scalar_type()));
}

ThreeTensors layer_norm_forward(
    const at::Tensor& input,
    c10::IntArrayRef shape,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    double eps) {
  const auto values = values_of(kLayerNorm, input);
  const auto dims = normalized_dims(input, shape.size());
  const auto mean = reduced_where_sharded(kLayerNorm, values.mean(dims, /*keepdim=*/true), values);
  const auto centered = values - mean;
  const auto rstd = (centered.square().mean(dims, /*keepdim=*/true) + eps).rsqrt();
  auto output = centered * rstd;
  output = is_there(weight) ? output * *weight : output;
  output = is_there(bias) ? output + *bias : output;
  return {output.to(input.scalar_type()), mean, rstd};
}

TwoTensors rms_norm_forward(
    const at::Tensor& input,
    c10::IntArrayRef shape,
    const OptionalTensor& weight,
    std::optional<double> eps) {
  const auto dtype = accumulation_dtype(input.scalar_type());
  const auto smallest =
      dtype == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  const auto values = values_of(kRmsNorm, input);
  const auto squares = values.square().mean(normalized_dims(input, shape.size()), /*keepdim=*/true);
  const auto rstd = (squares + eps.value_or(smallest)).rsqrt();
  const auto output = values * rstd;
  return {(is_there(weight) ? output * *weight : output).to(input.scalar_type()), rstd};
}

at::Tensor summed_over_rows(const at::Tensor& terms, int64_t row_ndim) {
  return row_ndim == 0 ? terms : terms.sum(dims_between(0, row_ndim));
}

/// With n = (x - mean) rstd, g = dy weight and averages E over the normalized dims:
///   dx = (g - E[g] - n E[g n]) rstd        dweight = sum(dy n)        dbias = sum(dy)
ThreeTensors layer_norm_backward(
    const at::Tensor& given_gradient,
    const at::Tensor& input,
    c10::IntArrayRef shape,
    const at::Tensor& mean,
    const at::Tensor& rstd,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    std::array<bool, 3> wanted) {
  const auto dtype = accumulation_dtype(input.scalar_type());
  const auto gradient = given_gradient.to(dtype);
  const auto normalized = (values_of(kLayerNormBackward, input) - mean.to(dtype)) * rstd.to(dtype);
  const auto dims = normalized_dims(input, shape.size());
  ThreeTensors result;
  if (wanted[0]) {
    const auto scaled = is_there(weight) ? gradient * weight->to(dtype) : gradient;
    // Stacked, so that one all-reduce sums both.
    const auto sums =
        at::stack({scaled.sum(dims, /*keepdim=*/true), (scaled * normalized).sum(dims, /*keepdim=*/true)});
    const auto averages = reduced_where_sharded(kLayerNormBackward, sums, input) / c10::multiply_integers(shape);
    std::get<0>(result) = ((scaled - averages[0] - normalized * averages[1]) * rstd.to(dtype)).to(input.scalar_type());
  }
  if (wanted[1] && is_there(weight)) {
    std::get<1>(result) = summed_over_rows(gradient * normalized, dims[0]).to(weight->scalar_type());
  }
  if (wanted[2] && is_there(bias)) {
    std::get<2>(result) = summed_over_rows(gradient, dims[0]).to(bias->scalar_type());
  }
  return result;
}

at::Tensor layer_norm_alone(
    const at::Tensor& input,
    c10::IntArrayRef shape,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    double eps,
    bool /*cudnn_enable*/) {
  return std::get<0>(layer_norm_forward(input, shape, weight, bias, eps));
}

at::Tensor rms_norm_alone(
    const at::Tensor& input,
    c10::IntArrayRef shape,
    const OptionalTensor& weight,
    std::optional<double> eps) {
  return std::get<0>(rms_norm_forward(input, shape, weight, eps));
}

} // namespace

void add_layer_norm_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  const auto add = [&](const char* name, KernelFunction kernel) {
    all.emplace(name, Decomposition{&shards_normalized_dims, std::move(kernel)});
  };
  add(kLayerNorm, KernelFunction::makeFromUnboxedFunction(TORCH_FN(layer_norm_forward)));
  add(kLayerNormBackward, KernelFunction::makeFromUnboxedFunction(TORCH_FN(layer_norm_backward)));
  add(kRmsNorm, KernelFunction::makeFromUnboxedFunction(TORCH_FN(rms_norm_forward)));
  // Composite operators, which are not taken apart in programs.
  add("aten::layer_norm", KernelFunction::makeFromUnboxedFunction(TORCH_FN(layer_norm_alone)));
  add("aten::rms_norm", KernelFunction::makeFromUnboxedFunction(TORCH_FN(rms_norm_alone)));
}

} // namespace weft
