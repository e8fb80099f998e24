#pragma once

#include "weft/core/layout.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace weft {

/// Registers bernoulli, rand_like, randn_like, randint_like and normal of tensors for distributed tensors. The result
/// has the layout of the tensor it is made like, with R in the place of P.
void register_random_like(torch::Library& library);

/// A new tensor for random numbers, of the same shape and layout, with R in the place of P; on the same device if none is given.
at::Tensor new_random(const at::Tensor& like, c10::ScalarType dtype, std::optional<c10::Device> device = std::nullopt);

} // namespace weft
