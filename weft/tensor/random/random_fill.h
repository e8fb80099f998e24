#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/tensor/random/random_distribution.h"
#include "weft/tensor/random/random_indices.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Raises for a tensor of a tracer: for operators whose numbers a traced program cannot record.
void check_not_traced(const at::Tensor& local);

/// Writes random numbers to this rank's local tensor. The number of an element depends only on the call and on the
/// element's index in the global tensor. The bits are the same on every rank, and on CPU and CUDA for uniform,
/// Bernoulli and integers; other distributions use functions whose last bit may differ between the two. `local` need
/// not be contiguous. Computes in float, and for double in double. Raises for a partial layout.
///
///   fill_random(local, *spec, Distribution::normal(0, 1), next_random_call());
void fill_random(const at::Tensor& local, const TensorSpec& spec, const Distribution& distribution, RandomCall call);
/// With the next call of the rank's state or of the generator. A traced program records the draw; see recorded_draws.h.
void fill_random(
    const at::Tensor& local,
    const TensorSpec& spec,
    const Distribution& distribution,
    const std::optional<at::Generator>& generator);

/// The numbers of the elements at `indices` in a contiguous tensor; nothing is checked.
void fill_contiguous(
    const at::Tensor& contiguous,
    const LocalIndices& indices,
    const Distribution& distribution,
    RandomCall call);

/// Writes 1 with the element's probability, else 0. `probabilities` has the shape of `local`, or is one number for all
/// elements.
void fill_bernoulli(const at::Tensor& local, const at::Tensor& probabilities, const TensorSpec& spec, RandomCall call);
void fill_bernoulli(
    const at::Tensor& local,
    const at::Tensor& probabilities,
    const TensorSpec& spec,
    const std::optional<at::Generator>& generator);

} // namespace weft
