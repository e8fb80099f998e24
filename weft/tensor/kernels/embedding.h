#pragma once

#include <torch/library.h>

namespace weft {

/// The embedding, for autograd: forward by its rule; backward makes of the table's gradient what lies on this rank. ATen's
/// derivative does not know how the table is cut and would make all of it on every rank.
///
///   table {S(0)}   a rank adds up the gradients of its own rows; those of others are left out
///   table {S(1)}   a rank takes its columns of the output's gradient
///   table {R}      by the rule of embedding_dense_backward: partial where positions are cut
///
/// Frequencies (scale_grad_by_freq) are counted over all positions: where these are cut, one all-reduce of a number per
/// row of the rank.
void register_embedding(torch::Library& autograd);

} // namespace weft
