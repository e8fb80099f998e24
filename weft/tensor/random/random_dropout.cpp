#include "weft/tensor/random/random_dropout.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/random/random_like.h"

#include <ATen/ATen.h>
#include <ATen/ops/alpha_dropout_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/feature_alpha_dropout_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/feature_dropout_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/rrelu_compositeimplicitautograd_dispatch.h>

namespace weft {

namespace {

using Generator = std::optional<at::Generator>;

void check_probability(double p) {
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "[dropout] a probability in [0, 1] is required, but got ", p, ".");
}

at::Tensor settled(const at::Tensor& input) {
  const auto& layout = checked_values("dropout", input).spec()->layout();
  return layout.has_partial() ? redistribute(input, without_partial(layout)) : input;
}

std::tuple<at::Tensor, at::Tensor> native_dropout_of(const at::Tensor& given, double p, std::optional<bool> train) {
  check_probability(p);
  const auto input = settled(given);
  const auto mask = new_random(input, at::kBool);
  if (!train.value_or(true)) {
    return {input.clone(), mask.fill_(true)};
  }
  mask.bernoulli_(1 - p);
  const auto scaled = as_dtensor(input)->local().mul(as_dtensor(mask)->local()).mul_(p == 1 ? 0 : 1 / (1 - p));
  const auto& spec = *spec_of(mask);
  return {
      make_dtensor(
          scaled.contiguous(), TensorSpec::make(spec.mesh(), spec.layout(), spec.sizes(), scaled.scalar_type())),
      mask};
}

at::Tensor backward_of_native_dropout(const at::Tensor& gradient, const at::Tensor& mask, double scale) {
  return gradient.mul(mask).mul(scale);
}

at::Tensor rrelu_of(
    const at::Tensor& self,
    at::Tensor& noise,
    const at::Scalar& lower,
    const at::Scalar& upper,
    bool training,
    Generator generator) {
  if (!training) {
    return at::leaky_relu(self, (lower.toDouble() + upper.toDouble()) / 2);
  }
  noise.uniform_(lower.toDouble(), upper.toDouble(), generator);
  noise.masked_fill_(self.gt(0), 1);
  return self.mul(noise);
}

at::Tensor& rrelu_in_place(
    at::Tensor& self,
    at::Tensor& noise,
    const at::Scalar& lower,
    const at::Scalar& upper,
    bool training,
    Generator generator) {
  return self.copy_(rrelu_of(self, noise, lower, upper, training, generator));
}

// These are registered above autograd. ATen's composite kernels begin with empty_like, which is partial for a partial
// input and cannot hold random numbers; and ATen's dropout differs between CPU and CUDA.

at::Tensor dropout_of(const at::Tensor& input, double p, bool train) {
  check_probability(p);
  return p == 0 || !train ? input : std::get<0>(at::native_dropout(input, p, train));
}

at::Tensor alpha_dropout_of(const at::Tensor& input, double p, bool train) {
  return at::compositeimplicitautograd::alpha_dropout(settled(input), p, train);
}

at::Tensor feature_dropout_of(const at::Tensor& input, double p, bool train) {
  return at::compositeimplicitautograd::feature_dropout(settled(input), p, train);
}

at::Tensor feature_alpha_dropout_of(const at::Tensor& input, double p, bool train) {
  return at::compositeimplicitautograd::feature_alpha_dropout(settled(input), p, train);
}

at::Tensor rrelu_above(
    const at::Tensor& self,
    const at::Scalar& lower,
    const at::Scalar& upper,
    bool training,
    Generator generator) {
  return at::compositeimplicitautograd::rrelu(settled(self), lower, upper, training, std::move(generator));
}

} // namespace

void register_random_dropout(torch::Library& library) {
  library.impl("native_dropout", TORCH_FN(native_dropout_of));
  library.impl("native_dropout_backward", TORCH_FN(backward_of_native_dropout));
  library.impl("rrelu_with_noise", TORCH_FN(rrelu_of));
  library.impl("rrelu_with_noise_", TORCH_FN(rrelu_in_place));

  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse2, __FILE__, __LINE__);
  for (auto* above : {&library, autograd}) {
    above->impl("dropout", TORCH_FN(dropout_of));
    above->impl("alpha_dropout", TORCH_FN(alpha_dropout_of));
    above->impl("feature_dropout", TORCH_FN(feature_dropout_of));
    above->impl("feature_alpha_dropout", TORCH_FN(feature_alpha_dropout_of));
    above->impl("rrelu", TORCH_FN(rrelu_above));
  }
}

} // namespace weft
