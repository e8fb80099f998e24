#pragma once

#include <torch/library.h>

namespace weft {

/// Registers ATen's in-place random operators (uniform_, normal_, bernoulli_, random_, ...) for distributed tensors. The
/// numbers follow from the state of random_state.h, or the given generator's, and the global element index. Raises where
/// the tensor is partial.
void register_random_in_place(torch::Library& library);

} // namespace weft
