#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Makes the gradients of a leaf lie as the leaf does before they are accumulated (replicated where that is partial), so
/// that a partial gradient is reduced once, and not by every operator of the optimizer.
void keep_gradient_layout(const at::Tensor& leaf);

} // namespace weft
