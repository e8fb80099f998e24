#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/derivative_of_torch.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/matmul_compositeimplicitautograd_dispatch.h>

namespace weft {

namespace {

at::Tensor matmul(c10::DispatchKeySet keys, const at::Tensor& self, const at::Tensor& other) {
  const bool is_complex = self.is_complex() || other.is_complex(); // ATen's derivative is of real numbers only
  if (C10_UNLIKELY(is_complex || has_tangent(self) || has_tangent(other))) {
    return at::compositeimplicitautograd::matmul(self, other);
  }
  return at::_ops::matmul::redispatch(to_derivative_of_torch(keys), self, other);
}

at::Tensor linear(
    c10::DispatchKeySet keys,
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias) {
  const bool has_bias = bias && bias->defined();
  if (C10_UNLIKELY(has_tangent(input) || has_tangent(weight) || (has_bias && has_tangent(*bias)))) {
    return at::compositeimplicitautograd::linear(input, weight, bias);
  }
  return at::_ops::linear::redispatch(to_derivative_of_torch(keys), input, weight, bias);
}

} // namespace

void register_products(torch::Library& autograd) {
  autograd.impl("matmul", TORCH_FN(matmul));
  autograd.impl("linear", TORCH_FN(linear));
}

} // namespace weft
