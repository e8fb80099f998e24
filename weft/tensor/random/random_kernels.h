#pragma once

#include <torch/library.h>

namespace weft {

/// Registers every operator of ATen that draws random numbers, for distributed tensors: by global element index where the
/// numbers belong to elements (in-place, ..._like, dropout), else on replicated tensors with a generator seeded alike.
void register_random(torch::Library& library);

} // namespace weft
