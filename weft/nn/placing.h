#pragma once

#include "weft/tensor/boundary/distribute_tensor.h"

#include <torch/nn/module.h>

#include <unordered_map>

namespace weft::nn {

/// Replaces plain tensors of a model by distributed ones. Tied tensors stay tied.
class Placing {
 public:
  Placing(DeviceMesh mesh, DistributeOptions options) : mesh_(std::move(mesh)), options_(options) {}

  /// Distributes the parameter or buffer with this name in its own module.
  void place(torch::nn::Module& owner, const std::string& name, const at::Tensor& tensor, const Layout& layout);
  /// Replicates the remaining plain parameters and buffers.
  void replicate_what_is_plain(torch::nn::Module& owner);

 private:
  DeviceMesh mesh_;
  DistributeOptions options_;
  /// The replacement of each plain tensor; the plain ones are kept, so that their addresses are not reused.
  std::unordered_map<c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> placed_;
};

} // namespace weft::nn
