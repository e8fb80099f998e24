#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Gives the gradients of a leaf the leaf's layout, with R in the place of P, when they are accumulated. So a partial
/// gradient is reduced once, and not by every operator of the optimizer. Gradients that only have to be reduced share
/// buckets (gradient_buckets.h). Others, and those that torch::autograd::grad returns, are redistributed immediately.
///
/// The user's hooks run before this redistribution and may see partial gradients.
void keep_gradient_layout(const at::Tensor& leaf);

} // namespace weft
