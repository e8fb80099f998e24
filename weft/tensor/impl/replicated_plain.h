#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Whether a plain tensor among distributed ones counts as replicated, the same on every rank: a tensor of one element,
/// any tensor in the forward of a parallelized module, in a ReplicatePlainScope and in backward, and inside of vmap one
/// that Python has never held.
bool counts_as_replicated(const at::Tensor& plain);

/// Torch's vmap begins and ends on this thread. Its rules in C++ make plain tensors from shapes (the first row of each of
/// several tables, for an embedding). Those have no object in Python, which the user's own tensors have.
void enter_vmap();
void leave_vmap();

/// Whether torch has made an index tensor from a list of Python: x[[0, 2]]. The numbers of a program count as the same on
/// every rank, in a list as by themselves. A tensor that the user has in Python is an object there; this one never is.
bool is_made_by_python_index(const at::Tensor& index);

} // namespace weft
