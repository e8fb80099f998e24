#pragma once

#include "weft/tensor/gradients/gradient_buckets.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Gives the gradients of a leaf the leaf's layout, with R in the place of P, when they are accumulated. So a partial
/// gradient is reduced once, and not by every operator of the optimizer. Gradients that only have to be reduced share
/// buckets (gradient_buckets.h). Others, and those that torch::autograd::grad returns, are redistributed immediately.
///
/// The user's hooks run before this redistribution and may see partial gradients.
void keep_gradient_layout(const at::Tensor& leaf);

/// Gives a plain tensor, which counts as replicated among distributed ones, plain gradients, the same on every rank:
/// those of adapters that were added to a parallelised model, for example. Does nothing for a tensor without gradients.
/// Gradients of leaves share buckets as above.
void keep_gradient_plain(const at::Tensor& plain);

/// The node that accumulates the gradient of a leaf, if this backward pass may give it the gradient later than autograd would:
/// no hook of the user sees it, and the caller of the pass has not asked for it. nullptr otherwise.
GradAccumulator accumulator_for_later(const at::Tensor& leaf);

/// Gives a leaf's node a gradient late: in the layout of the leaf, through a bucket where it still has to be reduced.
void accumulate_later(const at::Tensor& leaf, at::Tensor gradient, GradAccumulator accumulator);

} // namespace weft
