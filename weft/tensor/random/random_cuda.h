#pragma once

#include "weft/tensor/random/random_distribution.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Writes to a contiguous CUDA tensor the numbers of the elements first, first + 1, ...
void fill_random_cuda(const at::Tensor& contiguous, int64_t first, const Distribution& distribution, RandomCall call);

/// Writes to a contiguous CUDA tensor rows of the numbers of the elements row_begins[r] + within_row[i].
void fill_random_cuda(
    const at::Tensor& contiguous,
    const at::Tensor& row_begins,
    const at::Tensor& within_row,
    const Distribution& distribution,
    RandomCall call);

} // namespace weft
