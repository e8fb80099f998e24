#include "examples/models/initialize.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

namespace models {

void initialize(torch::nn::Module& model, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const auto& module : model.modules()) {
    if (auto* embedding = module->as<torch::nn::Embedding>()) {
      embedding->weight.normal_(0, 0.3, generator);
    } else if (auto* linear = module->as<torch::nn::Linear>()) {
      linear->weight.normal_(0, 1 / std::sqrt(static_cast<double>(linear->weight.size(1))), generator);
      if (linear->bias.defined()) {
        linear->bias.zero_();
      }
    }
  }
}

} // namespace models
