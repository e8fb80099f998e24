#pragma once

#include <torch/library.h>

namespace weft {

/// Registers the backward operators of linear and matmul, which stay whole, for distributed tensors.
void register_linear_backward(torch::Library& library);

} // namespace weft
