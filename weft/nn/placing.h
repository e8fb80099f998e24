#pragma once

#include "weft/tensor/boundary/distribute_tensor.h"

#include <torch/nn/module.h>

#include <unordered_map>

namespace weft::nn {

/// Puts distributed tensors in the place of the plain ones of a model. Those that are tied stay so.
class Placing {
 public:
  Placing(DeviceMesh mesh, DistributeOptions options) : mesh_(std::move(mesh)), options_(options) {}

  /// The parameter or buffer of this name in its own module, laid out as asked.
  void place(torch::nn::Module& owner, const std::string& name, const at::Tensor& tensor, const Layout& layout);
  /// Parameters and buffers.
  void replicate_what_is_plain(torch::nn::Module& owner);

 private:
  DeviceMesh mesh_;
  DistributeOptions options_;
  /// What stands for what; the plain ones are kept, so that no other takes their place in memory.
  std::unordered_map<c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> placed_;
};

} // namespace weft::nn
