#include "weft/tensor/kernels/kernels.h"

#include "weft/tensor/decompositions/reduced_dims.h"

#include <ATen/ATen.h>

#include <numeric>

namespace weft {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool is_given(const OptionalTensor& tensor) {
  return tensor && tensor->defined();
}

void update(const at::Tensor& running, const at::Tensor& of_samples, double momentum) {
  const auto latest = of_samples.mean(0);
  running.copy_(running.to(latest.scalar_type()).mul(1 - momentum).add(latest, momentum));
}

/// Updates the running statistics by the moments of every sample, averaged over the samples.
void update_running_statistics(
    const at::Tensor& input,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    double momentum) {
  if (!is_given(running_mean) && !is_given(running_var)) {
    return;
  }
  const at::NoGradGuard no_gradient;
  std::vector<int64_t> dims(input.dim() - 2);
  std::iota(dims.begin(), dims.end(), int64_t{2});
  const auto values = input.to(accumulation_dtype(input.scalar_type()));
  // Does not use var_mean, because torch warns about it on ranks without samples.
  const auto mean = values.mean(dims, /*keepdim=*/true);
  if (is_given(running_mean)) {
    update(*running_mean, mean.squeeze(dims), momentum);
  }
  if (is_given(running_var)) {
    const auto squares = (values - mean).square().sum(dims);
    update(*running_var, squares / (static_cast<double>(reduced_count(input, dims)) - 1), momentum);
  }
}

at::Tensor instance_norm(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    bool use_input_stats,
    double momentum,
    double eps,
    bool cudnn_enabled) {
  TORCH_CHECK(
      use_input_stats || (is_given(running_mean) && is_given(running_var)),
      "Expected running_mean and running_var to be defined when use_input_stats is false");
  if (!use_input_stats) {
    return at::batch_norm(
        input, weight, bias, running_mean, running_var, /*training=*/false, momentum, eps, cudnn_enabled);
  }
  update_running_statistics(input, running_mean, running_var, momentum);
  return at::group_norm(input, /*num_groups=*/input.size(1), weight, bias, eps, cudnn_enabled);
}

} // namespace

void register_instance_norm(torch::Library& library) {
  library.impl("instance_norm", TORCH_FN(instance_norm));
}

} // namespace weft
