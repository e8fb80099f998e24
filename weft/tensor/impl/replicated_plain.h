#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Whether a plain tensor among distributed ones counts as replicated, the same on every rank: a tensor of one element,
/// and any tensor in the forward of a parallelized module, in a ReplicatePlainScope and in backward.
bool counts_as_replicated(const at::Tensor& plain);

/// Whether torch has made an index tensor from a list of Python: x[[0, 2]]. The numbers of a program count as the same on
/// every rank, in a list as by themselves. A tensor that the user has in Python is an object there; this one never is.
bool is_made_by_python_index(const at::Tensor& index);

} // namespace weft
