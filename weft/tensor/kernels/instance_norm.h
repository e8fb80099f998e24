#pragma once

#include <torch/library.h>

namespace weft {

/// Registers instance_norm as a group norm with one channel per group. ATen would normalize samples and channels as the
/// channels of one batch norm, by a view that merges both dims, which an unevenly sharded batch does not allow.
/// Where operators are recorded for backward and below.
///
///   at::instance_norm(f32[5,3,8] {S(0)}, ...)   ->   f32[5,3,8] {S(0)}, without communication
void register_instance_norm(torch::Library& library);

} // namespace weft
