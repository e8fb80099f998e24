#pragma once

#include "weft/nn/cross_entropy_call.h"

namespace weft::nn {

/// Cross entropy of class-sharded logits, differentiable once, in which no rank needs all classes of a row. With r rows
/// on a rank it communicates, along the mesh dims that shard the classes,
///
///   all_reduce(max)   r numbers: the greatest logit of a row
///   all_reduce(sum)   2 r or 3 r numbers: the sum of exponentials, the target's logit, and the sum of logits for label smoothing
///
/// then, if rows are sharded too, one all_reduce(sum) of at most three numbers along those mesh dims. Backward
/// communicates nothing: the gradient of a shard of the logits depends on that shard and on one number per row.
///
/// The target is redistributed to the layout of the rows, class weights to every rank. A loss per row has the layout of
/// the rows; a mean or a sum is replicated. Partial logits are reduced into shards of the classes first.
at::Tensor parallel_cross_entropy(const CrossEntropyCall& call);

} // namespace weft::nn
