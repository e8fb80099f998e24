#pragma once

#include "weft/core/layout.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace weft {

/// Registers bernoulli, rand_like, randn_like, randint_like and normal of tensors for distributed tensors. The result
/// lies as the tensor it is made like, replicated where that is partial.
void register_random_like(torch::Library& library);

/// A new tensor for random numbers, of the same shape and, but for what is partial, the same layout.
at::Tensor new_random(const at::Tensor& like, c10::ScalarType dtype);

} // namespace weft
