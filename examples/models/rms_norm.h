#pragma once

#include "weft/nn/replace_parameters.h"

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace models {

/// Normalized by the root of the mean square, which torch::nn has no module for. Its member is named for
/// weft::nn::parallelize_module, which puts a distributed tensor there.
class RmsNormImpl : public torch::nn::Module, public weft::nn::Replaceable {
 public:
  explicit RmsNormImpl(int64_t dim) : weight(register_parameter("weight", torch::ones({dim}))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::rms_norm(x, weight.sizes(), weight, 1e-5);
  }
  weft::nn::TensorMembers tensor_members() override {
    return {{"weight", &weight}};
  }

  torch::Tensor weight;
};
TORCH_MODULE(RmsNorm);

} // namespace models
