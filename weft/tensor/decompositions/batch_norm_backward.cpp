#include "weft/tensor/decompositions/batch_norm_input.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr const char* kBackward = "aten::native_batch_norm_backward";

bool backward_applies(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const bool trains = call.has("train") ? call.boolean("train") : call.boolean("update", /*otherwise=*/true);
  if (!trains) {
    return normalizes_empty_shards(call, operands);
  }
  const auto& input = *spec_of(call, operands, "input");
  const auto* gradient = spec_of(call, operands, call.has("grad_out") ? "grad_out" : "grad_output");
  return input.dim() >= 2 && c10::multiply_integers(input.sizes()) != 0 &&
      (shards_samples(input) || leaves_a_rank_empty(input) || (gradient != nullptr && shards_samples(*gradient)));
}

/// Statistics, and whether the gradient flows through them, which it does not if the caller gave them (evaluation).
struct Statistics {
  at::Tensor mean;
  at::Tensor inverse_deviation;
  bool are_of_batch;
};

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// With c = x - mean, r = 1 / deviation and averages E over all samples:
///   dx = (dy - E[dy] - c r^2 E[dy c]) r weight        dweight = sum(dy c) r        dbias = sum(dy)
Gradients batch_norm_gradients(
    const at::Tensor& given_gradient,
    const at::Tensor& given_input,
    const OptionalTensor& weight,
    const Statistics& statistics,
    std::array<bool, 3> wanted) {
  const auto dtype = accumulation_dtype(given_input.scalar_type());
  const auto input = without_partial(kBackward, given_input);
  const auto gradient = given_gradient.to(dtype);
  const auto centered = input.to(dtype) - per_channel(statistics.mean, input);
  const auto dims = sample_dims(input);
  // Stacked, so that one all-reduce sums both.
  auto sums = at::stack({gradient.sum(dims), (gradient * centered).sum(dims)});
  const bool is_weighted = weight && weight->defined();
  const auto& deviation = statistics.inverse_deviation;
  const auto scale = is_weighted ? deviation * *weight : deviation;
  Gradients result;
  if (wanted[0]) {
    auto& of_input = std::get<0>(result);
    if (statistics.are_of_batch) {
      sums = reduced_where_sharded(kBackward, sums, input);
      const auto averages = sums / samples_per_channel(input);
      of_input = at::addcmul(per_channel(averages[0] * -scale, input), gradient, per_channel(scale, input));
      of_input = at::addcmul(of_input, centered, per_channel(averages[1] * (deviation.square() * -scale), input));
    } else {
      of_input = gradient * per_channel(scale, input);
    }
    of_input = of_input.to(given_input.scalar_type());
  }
  const auto parameter_dtype = is_weighted ? weight->scalar_type() : dtype;
  if (wanted[1]) {
    std::get<1>(result) = (sums[1] * deviation).to(parameter_dtype);
  }
  if (wanted[2]) {
    std::get<2>(result) = sums[0].to(parameter_dtype);
  }
  return result;
}

Gradients batch_norm_backward(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    const OptionalTensor& save_mean,
    const OptionalTensor& save_invstd,
    bool train,
    double eps,
    std::array<bool, 3> wanted) {
  const auto dtype = accumulation_dtype(input.scalar_type());
  const auto statistics = train
      ? Statistics{save_mean->to(dtype), save_invstd->to(dtype), /*are_of_batch=*/true}
      : Statistics{running_mean->to(dtype), (running_var->to(dtype) + eps).rsqrt(), /*are_of_batch=*/false};
  return batch_norm_gradients(gradient, input, weight, statistics, wanted);
}

Gradients batch_norm_backward_with_reserve(
    const at::Tensor& gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    const OptionalTensor& save_mean,
    const OptionalTensor& save_invstd,
    bool update,
    double eps,
    std::array<bool, 3> wanted,
    const at::Tensor& /*reserve*/) {
  return batch_norm_backward(
      gradient, input, weight, running_mean, running_var, save_mean, save_invstd, update, eps, wanted);
}

Gradients cudnn_batch_norm_backward(
    const at::Tensor& input,
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    const OptionalTensor& save_mean,
    const OptionalTensor& save_invstd,
    double eps,
    const at::Tensor& /*reserve*/) {
  return batch_norm_backward(
      gradient, input, weight, running_mean, running_var, save_mean, save_invstd, /*train=*/true, eps,
      {true, true, true});
}

} // namespace

void add_batch_norm_backward_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  const auto add = [&](const char* name, KernelFunction kernel) {
    all.emplace(name, Decomposition{&backward_applies, std::move(kernel)});
  };
  add("aten::native_batch_norm_backward", KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm_backward)));
  add("aten::batch_norm_backward", KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm_backward_with_reserve)));
  add("aten::cudnn_batch_norm_backward", KernelFunction::makeFromUnboxedFunction(TORCH_FN(cudnn_batch_norm_backward)));
}

} // namespace weft
