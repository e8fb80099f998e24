#pragma once

#include "weft/core/placement.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// output = pieces[0] op pieces[1] op ..., in that order, so that every rank that reduces the same pieces gets the same
/// bits. 16-bit floats are added up in 32 bits. `output` may be one of the first two pieces.
void reduce_pieces(const at::Tensor& output, c10::ArrayRef<at::Tensor> pieces, ReduceOp op);

} // namespace weft
