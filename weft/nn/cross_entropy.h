#pragma once

#include "weft/nn/cross_entropy_call.h"

namespace weft::nn {

/// Cross entropy where ranks hold different classes, differentiable once, without any rank having all classes of a row.
/// With r rows on a rank it communicates, along the mesh dims that cut the classes,
///
///   all_reduce(max)   r numbers: the greatest logit of a row
///   all_reduce(sum)   2 r or 3 r numbers: the sum of exponentials, the target's logit, and what smoothing adds
///
/// then, where rows are cut too, one all_reduce(sum) of at most three numbers along those mesh dims. Backward
/// communicates nothing: the gradient of a part of the logits follows from that part and from one number per row.
///
/// The target is brought to where the rows are, class weights to every rank. A loss per row lies as the rows, a mean or a
/// sum is replicated. Partial logits are reduced into parts of the classes first.
at::Tensor parallel_cross_entropy(const CrossEntropyCall& call);

} // namespace weft::nn
