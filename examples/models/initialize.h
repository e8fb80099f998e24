#pragma once

#include <torch/nn/module.h>

namespace models {

/// Gives a plain model its first values, by random numbers of its own: the same on every rank, also where ranks are
/// threads, which share torch's generator. Weights are normally distributed, those of linear layers scaled by their
/// inputs; biases are 0; norms stay as they are.
void initialize(torch::nn::Module& model, uint64_t seed = 1);

} // namespace models
