#pragma once

#include <torch/library.h>

namespace weft {

/// Gradients of operators that pick elements by index (max along a dim, cummax, trace). ATen starts them from a plain tensor of
/// zeros; here it is a distributed one.
void register_selecting_backward(torch::Library& library);

} // namespace weft
