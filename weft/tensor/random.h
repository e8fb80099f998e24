#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/core/Tensor.h>

namespace weft {

struct RandomOptions {
  at::ScalarType dtype = at::kFloat;
  bool requires_grad = false;
  /// Used instead of the rank's random state. It must be in the same state on all ranks.
  std::optional<at::Generator> generator = std::nullopt;
};

/// A distributed tensor of random numbers: uniform in [0, 1), or normal with mean 0 and deviation 1. Each rank makes
/// its local tensor. The global tensor is the same on any mesh and in any layout.
///
///   manual_seed(7);
///   auto weight = randn({8, 16}, mesh, {Shard(0)}, {.requires_grad = true});
at::Tensor rand(
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const RandomOptions& options = {});
at::Tensor randn(
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const RandomOptions& options = {});

} // namespace weft
