#pragma once

#include "weft/core/layout.h"

#include <torch/csrc/autograd/variable.h>

namespace weft {

/// The node that accumulates a leaf's gradient; none where no graph leads to the leaf.
using GradAccumulator = decltype(torch::autograd::impl::try_get_grad_accumulator(std::declval<const at::Tensor&>()));

/// Takes a leaf's gradient in a backward pass to reduce it together with others; false where it is not partial over mesh
/// dims on which `layout` is replicated, by sum or average. Whatever else brings it to `layout` is done first, at once.
///
/// Gradients that are reduced over the same mesh dims of one mesh, by the same operation and in one dtype, share buckets.
/// A full bucket is reduced by one all_reduce, which goes on while backward does. At the end of the pass the rest is
/// reduced and everything is accumulated, in `layout`, as the node does: the gradients of a bucket lie in one piece of
/// memory. An error of a collective is raised by backward().
///
/// Which gradients share a bucket follows from their specs and the order in which they come: the same on every rank.
bool reduce_in_bucket(const at::Tensor& gradient, const Layout& layout, GradAccumulator accumulator);

/// How many bytes of gradients fill a bucket; 0: every gradient is reduced by itself as soon as it is there. It must be the
/// same on every rank.
int64_t gradient_bucket_bytes();
void set_gradient_bucket_bytes(int64_t bytes);

} // namespace weft
