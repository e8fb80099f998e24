#pragma once

#include "weft/core/layout.h"

#include <torch/csrc/autograd/variable.h>

#include <functional>

namespace weft {

/// The node that accumulates a leaf's gradient; nullptr if no graph leads to the leaf.
using GradAccumulator = decltype(torch::autograd::impl::try_get_grad_accumulator(std::declval<const at::Tensor&>()));

/// Takes a leaf's gradient in a backward pass to reduce it together with others. Returns false, and takes nothing,
/// unless the gradient is P(sum) or P(avg) on mesh dims where `layout` is R. Other redistribution to `layout` is done
/// before, immediately.
///
/// Gradients that are reduced over the same mesh dims of one mesh, by the same operation and in one dtype, share
/// buckets. A full bucket is reduced by one all_reduce, which overlaps with the rest of backward. At the end of the
/// pass the other buckets are reduced, and the nodes accumulate all gradients, in `layout`; a plain leaf, whose `layout` is
/// R, the local tensor. The gradients of a bucket share one storage. backward() raises the error of a collective.
///
/// Which gradients share a bucket depends only on their specs and on the order in which backward computes them: the
/// same on every rank.
bool reduce_in_bucket(const at::Tensor& gradient, const Layout& layout, GradAccumulator accumulator);

/// Calls a function at the end of the backward pass that this thread works on, before the buckets that are not full are reduced:
/// a reduction that overlaps with the pass is finished there, and what it gives may go into buckets.
void at_end_of_pass(std::function<void()> finish);

/// How many bytes of gradients fill a bucket; with 0 every gradient is reduced by itself as soon as it is computed. It
/// must be the same on every rank.
int64_t gradient_bucket_bytes();
void set_gradient_bucket_bytes(int64_t bytes);

} // namespace weft
