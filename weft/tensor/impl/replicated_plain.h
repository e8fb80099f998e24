#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Whether a plain tensor among distributed ones counts as replicated, the same on every rank: a tensor of one element,
/// and any tensor in the forward of a parallelized module, in a ReplicatePlainScope and in backward.
bool counts_as_replicated(const at::Tensor& plain);

} // namespace weft
