#include "weft/tensor/kernels/kernels.h"

#include "weft/overlap/matrix_gradient.h"
#include "weft/tensor/kernels/scattered_matmul.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace weft {

namespace {

/// The factor by which a gradient is multiplied: the conjugate for complex tensors. Real tensors cost no dispatch.
at::Tensor conjugate(const at::Tensor& tensor) {
  return tensor.is_complex() ? tensor.conj() : tensor;
}

/// Gradients of linear(input, weight, bias) by operators that have rules, because torch has no dense kernel for them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> linear_backward(
    const at::Tensor& input,
    const at::Tensor& grad_output,
    const at::Tensor& weight,
    std::array<bool, 3> wanted) {
  at::Tensor grad_input;
  at::Tensor grad_weight;
  at::Tensor grad_bias;
  // As matrices: a vector of inputs is one row, a vector of weights gives one column.
  const auto matrix = conjugate(weight.dim() == 1 ? weight.unsqueeze(0) : weight);
  const auto outputs = weight.dim() == 1 ? grad_output.unsqueeze(-1) : grad_output;
  const auto rows = as_rows(outputs);
  if (wanted[0]) {
    grad_input = scattered_matmul(outputs, matrix, input);
    grad_input = grad_input.defined() ? grad_input : at::matmul(outputs, matrix);
  }
  if (wanted[1]) {
    grad_weight = at::mm(rows.t(), conjugate(as_rows(input))).reshape(weight.sizes());
  }
  if (wanted[2]) {
    grad_bias = rows.sum(0);
  }
  return {grad_input, grad_weight, grad_bias};
}

at::Tensor reduced_to(at::Tensor gradient, c10::IntArrayRef sizes) {
  return gradient.sizes() == sizes ? gradient : at::sum_to(gradient, sizes);
}

std::tuple<at::Tensor, at::Tensor> matmul_backward(
    const at::Tensor& grad,
    const at::Tensor& a,
    const at::Tensor& b,
    std::array<bool, 2> wanted) {
  at::Tensor grad_a;
  at::Tensor grad_b;
  // As matrices: a row on the left, a column on the right.
  const auto left = conjugate(a.dim() == 1 ? a.unsqueeze(0) : a);
  const auto right = conjugate(b.dim() == 1 ? b.unsqueeze(1) : b);
  auto outer = a.dim() == 1 ? grad.unsqueeze(-1 - (b.dim() == 1 ? 0 : 1)) : grad;
  outer = b.dim() == 1 ? outer.unsqueeze(-1) : outer;
  if (wanted[0]) {
    grad_a = scattered_matmul(outer, right.transpose(-2, -1), left);
    if (!grad_a.defined()) {
      grad_a = reduced_to(at::matmul(outer, right.transpose(-2, -1)), left.sizes()).reshape(a.sizes());
    }
  }
  if (wanted[1]) {
    grad_b = right.dim() == 2 ? matrix_gradient(left, outer, right)
                              : reduced_to(at::matmul(left.transpose(-2, -1), outer), right.sizes());
    grad_b = b.dim() == 1 ? grad_b.reshape(b.sizes()) : grad_b;
  }
  return {grad_a, grad_b};
}

} // namespace

void register_linear_backward(torch::Library& library) {
  library.impl("linear_backward", TORCH_FN(linear_backward));
  library.impl("matmul_backward", TORCH_FN(matmul_backward));
}

} // namespace weft
