#pragma once

#include "examples/models/parameter_maker.h"

#include <torch/nn/module.h>

namespace models {

struct PerceptronSizes {
  int64_t inputs = 16;
  int64_t hidden = 64;
  int64_t outputs = 4;
};

/// Two linear layers. On mesh(dp, tp) the first is cut by columns along tp and the second by rows, so that what is
/// between them is nowhere gathered.
class Perceptron : public torch::nn::Module {
 public:
  Perceptron(const PerceptronSizes& sizes, ParameterMaker make);

  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor up_;
  torch::Tensor up_bias_;
  torch::Tensor down_;
  torch::Tensor down_bias_;
};

} // namespace models
