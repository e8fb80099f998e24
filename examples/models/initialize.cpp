#include "examples/models/initialize.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>

namespace models {

void initialize(torch::nn::Module& model, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& item : model.named_parameters()) {
    auto& parameter = item.value();
    if (parameter.dim() > 1) {
      parameter.normal_(0, 1 / std::sqrt(static_cast<double>(parameter.size(-1))), generator);
    } else if (item.key().ends_with("bias")) {
      parameter.zero_();
    }
  }
}

} // namespace models
