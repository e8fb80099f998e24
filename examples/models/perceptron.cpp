#include "examples/models/perceptron.h"

#include <cmath>

namespace models {

using weft::Replicate;
using weft::Shard;

Perceptron::Perceptron(const PerceptronSizes& sizes, ParameterMaker make) {
  const auto [inputs, hidden, outputs] = sizes;
  const auto scaled = [&](int64_t out, int64_t in, const weft::Layout& layout) {
    return make.normal({out, in}, 1 / std::sqrt(static_cast<double>(in)), layout);
  };
  up_ = register_parameter("up", scaled(hidden, inputs, {Replicate(), Shard(0)}));
  up_bias_ = register_parameter("up_bias", make.zeros({hidden}, {Replicate(), Shard(0)}));
  down_ = register_parameter("down", scaled(outputs, hidden, {Replicate(), Shard(1)}));
  down_bias_ = register_parameter("down_bias", make.zeros({outputs}, {Replicate(), Replicate()}));
}

torch::Tensor Perceptron::forward(const torch::Tensor& x) {
  return torch::linear(torch::relu(torch::linear(x, up_, up_bias_)), down_, down_bias_);
}

} // namespace models
