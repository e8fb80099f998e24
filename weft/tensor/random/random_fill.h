#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/tensor/random/random_distribution.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Writes to this rank's part of a tensor the random numbers that its elements have in the global tensor: those follow
/// from the call and the element's index alone. The same bits on every rank and on CPU and CUDA, but for functions whose
/// last bit differs between the two (all but uniform, Bernoulli and whole numbers). `local` need not be contiguous.
/// Computed in float, for double in double. Raises for what is partial.
///
///   fill_random(local, *spec, Distribution::normal(0, 1), next_random_call());
void fill_random(const at::Tensor& local, const TensorSpec& spec, const Distribution& distribution, RandomCall call);

/// 1 with the probability that stands at the element's place in `probabilities`, which lie as `local` does; else 0.
void fill_bernoulli(const at::Tensor& local, const at::Tensor& probabilities, const TensorSpec& spec, RandomCall call);

} // namespace weft
