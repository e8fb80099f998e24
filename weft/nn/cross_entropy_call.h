#pragma once

#include <ATen/core/Tensor.h>

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

/// The dtype of the loss. Under autocast that of narrow logits is float, as for losses on a single device.
at::ScalarType loss_dtype(const CrossEntropyCall& call);

} // namespace weft::nn
