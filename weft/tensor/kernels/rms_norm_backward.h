#pragma once

#include <torch/library.h>

namespace weft {

/// The gradient of the RMS norm, for autograd: ATen has a kernel for cuda alone, and none that is differentiable.
void register_rms_norm_backward(torch::Library& autograd);

} // namespace weft
