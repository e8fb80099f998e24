#pragma once

#include "weft/tensor/dtensor_impl.h"

#include <optional>

namespace weft::nn {

/// The arguments of ATen's cross_entropy_loss.
struct CrossEntropyCall {
  at::Tensor logits; // (classes), (rows, classes) or (rows, classes, ...)
  at::Tensor target; // a class per row, or of the logits' shape a probability per class
  std::optional<at::Tensor> weight;
  int64_t reduction;
  int64_t ignore_index;
  double label_smoothing;

  int64_t class_dim() const {
    return logits.dim() == 1 ? 0 : 1;
  }
  int64_t class_count() const {
    return logits.size(class_dim());
  }
  bool has_probabilities() const {
    return target.sizes() == logits.sizes();
  }
};

/// Whether no rank has all classes of a row: they are cut, or every rank has a term of them.
bool has_classes_in_parts(const CrossEntropyCall& call);

/// Whether shapes and dtypes are those that parallel_cross_entropy takes: all that make sense, in the logits' dtype.
bool is_regular(const CrossEntropyCall& call);

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
