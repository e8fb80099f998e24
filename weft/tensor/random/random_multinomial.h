#pragma once

#include <torch/library.h>

namespace weft {

/// Registers multinomial for distributed tensors, made of operators that draw by element index: the same samples in every
/// layout. Shards of the distributions stay, so that the samples of each are on the ranks that hold it.
///
///   at::multinomial(f32[8,4] {S(0)}, 2)   // i64[8,2] {S(0)}, without communication of the probabilities
void register_random_multinomial(torch::Library& library);

} // namespace weft
