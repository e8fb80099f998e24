#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Makes the gradients of a leaf lie as the leaf does when they are accumulated (replicated where that is partial), so that
/// a partial gradient is reduced once, and not by every operator of the optimizer. Those that only have to be reduced are
/// so in buckets (gradient_buckets.h); others, and those that are returned by torch::autograd::grad, at once.
///
/// Hooks of the user's see gradients as they come, perhaps partial, since a reduction comes after them all.
void keep_gradient_layout(const at::Tensor& leaf);

} // namespace weft
