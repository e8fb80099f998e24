#pragma once

#include "weft/tensor/random/random_distribution.h"
#include "weft/tensor/random/random_indices.h"
#include "weft/tensor/random/random_state.h"

namespace weft {

/// Writes to a contiguous tensor in host memory the numbers of the elements at `indices`.
void fill_random_cpu(
    const at::Tensor& contiguous,
    const LocalIndices& indices,
    const Distribution& distribution,
    RandomCall call);

} // namespace weft
