#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace weft::nn {

/// The arguments of ATen's cross_entropy_loss.
struct CrossEntropyCall {
  at::Tensor logits; // (classes), (rows, classes) or (rows, classes, ...)
  at::Tensor target; // a class per row, or a probability per class in the logits' shape
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

/// Whether no rank has the full logits of a row: the classes are sharded or the logits are partial.
bool has_distributed_classes(const CrossEntropyCall& call);

/// Whether shapes and dtypes are supported by parallel_cross_entropy: all valid ones, with weights in the logits'
/// dtype.
bool is_regular(const CrossEntropyCall& call);

/// The dtype of the loss. Under autocast it is float for narrower logits, as for losses on a single device.
at::ScalarType loss_dtype(const CrossEntropyCall& call);

} // namespace weft::nn
