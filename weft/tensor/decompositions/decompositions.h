#pragma once

#include "weft/propagation/decomposition.h"

namespace weft {

/// The families of decompositions, each in a file of its name.
void add_moment_decompositions(Decompositions& all);
void add_norm_decompositions(Decompositions& all);
void add_batch_norm_decompositions(Decompositions& all);
/// Layer norms and RMS norms of inputs whose normalized dims are sharded: ranks reduce the moments, one number per normalized row,
/// where the rule would gather the input.
///
///   native_layer_norm(f32[2,9,32] {S(2)}, {32}, ...)   ->   f32[2,9,32] {S(2)}, two all-reduces of f32[2,9,1]
void add_layer_norm_decompositions(Decompositions& all);
/// Convolutions of spatially sharded inputs: ranks exchange the rows that windows at the borders of their shards reach (halo.h),
/// and the output is sharded as the input. By the rule such an input would be gathered or sharded along another dim, as it is where
/// that transfers less, where weights or channels are sharded too, and in programs.
///
///   convolution(f32[1,3,64,64] {S(2)}, f32[8,3,3,3] {R}, padding 1)   ->   f32[1,8,64,64] {S(2)}, a row to each neighbour
void add_convolution_decompositions(Decompositions& all);
void add_loss_decompositions(Decompositions& all);
void add_comparison_decompositions(Decompositions& all);
void add_view_decompositions(Decompositions& all);

} // namespace weft
