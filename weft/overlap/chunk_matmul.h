#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// target = input @ other, or target += input @ other, and + bias where it is defined. The input and the target have
/// two dims or more, of which the last is multiplied, and any strides: slices of larger tensors are read and written in
/// place.
///
///   multiply_into(out.narrow(1, 4, 2), x, weight, /*bias=*/{}, /*adds=*/false);     // x is [8, 2, 16], out [8, 6, 32]
void multiply_into(
    const at::Tensor& target,
    const at::Tensor& input,
    const at::Tensor& other,
    const at::Tensor& bias,
    bool adds);

/// The tensor with all dims but the last flattened; nothing if that needs a copy.
std::optional<at::Tensor> as_matrix(const at::Tensor& tensor);

} // namespace weft
