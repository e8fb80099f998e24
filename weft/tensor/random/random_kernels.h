#pragma once

#include <torch/library.h>

namespace weft {

/// Registers every operator of ATen that draws random numbers, for distributed tensors. Operators that draw one number
/// per element (in-place, ..._like, dropout) draw by the global index of the element. Others run on replicated tensors,
/// with a generator that has the same seed on all ranks.
void register_random(torch::Library& library);

} // namespace weft
