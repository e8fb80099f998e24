#include "weft/overlap/chunk_matmul.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

namespace weft {

namespace {

/// Matrices of fewer rows than this are copied together and multiplied by one call, instead of one call each.
constexpr int64_t kFewRows = 32;

int64_t rows_of(const at::Tensor& tensor) {
  int64_t rows = 1;
  for (const auto size : tensor.sizes().slice(0, tensor.dim() - 1)) {
    rows *= size;
  }
  return rows;
}

void multiply_matrices(
    at::Tensor target,
    const at::Tensor& input,
    const at::Tensor& other,
    const at::Tensor& bias,
    bool adds) {
  if (adds) {
    target.addmm_(input, other);
    if (bias.defined()) {
      target.add_(bias);
    }
  } else if (bias.defined()) {
    at::addmm_out(target, bias, input, other);
  } else {
    at::mm_out(target, input, other);
  }
}

} // namespace

std::optional<at::Tensor> as_matrix(const at::Tensor& tensor) {
  if (tensor.dim() == 2) {
    return tensor;
  }
  const at::DimVector sizes = {rows_of(tensor), tensor.size(-1)};
  if (!at::detail::computeStride(tensor.sizes(), tensor.strides(), sizes)) {
    return std::nullopt;
  }
  return tensor.view(sizes);
}

void multiply_into(
    const at::Tensor& target,
    const at::Tensor& input,
    const at::Tensor& other,
    const at::Tensor& bias,
    bool adds) {
  if (target.numel() == 0) {
    return;
  }
  const auto target_matrix = as_matrix(target);
  const auto input_matrix = as_matrix(input);
  if (target_matrix && input_matrix) {
    multiply_matrices(*target_matrix, *input_matrix, other, bias, adds);
    return;
  }
  if (rows_of(target) / target.size(0) >= kFewRows) {
    for (int64_t i = 0; i < target.size(0); ++i) {
      multiply_into(target.select(0, i), input.select(0, i), other, bias, adds);
    }
    return;
  }
  const auto packed_input = input_matrix ? *input_matrix : input.reshape({rows_of(input), input.size(-1)});
  if (target_matrix) {
    multiply_matrices(*target_matrix, packed_input, other, bias, adds);
    return;
  }
  const auto packed_target = adds ? target.contiguous() : at::empty(target.sizes(), target.options());
  multiply_matrices(packed_target.view({rows_of(target), target.size(-1)}), packed_input, other, bias, adds);
  target.copy_(packed_target);
}

} // namespace weft
