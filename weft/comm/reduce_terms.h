#pragma once

#include "weft/core/placement.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// output = terms[0] op terms[1] op ..., in that order, so that every rank that reduces the same terms gets the same
/// bits. 16-bit floats are accumulated in 32 bits. `output` may be one of the first two terms.
void reduce_terms(const at::Tensor& output, c10::ArrayRef<at::Tensor> terms, ReduceOp op);

} // namespace weft
