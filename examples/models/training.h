#pragma once

#include "examples/models/batch.h"

#include <torch/nn/functional/loss.h>
#include <torch/optim/adamw.h>

#include <memory>

namespace models {

/// A model in training, on one device or on a mesh: as its parameters and batches are.
template <class Model>
class Training {
 public:
  explicit Training(std::shared_ptr<Model> model, double learning_rate = 0.01)
      : model_(std::move(model)),
        optimizer_(model_->parameters(), torch::optim::AdamWOptions(learning_rate).weight_decay(0.01)) {}

  torch::Tensor loss(const Batch& batch) {
    const auto logits = model_->forward(batch.inputs);
    return torch::nn::functional::cross_entropy(logits.flatten(0, -2), batch.targets.flatten());
  }
  /// Changes the parameters by their gradients, which are gone afterwards.
  void update() {
    optimizer_.step();
    optimizer_.zero_grad();
  }
  /// The loss before the parameters were changed.
  double step(const Batch& batch) {
    const auto result = loss(batch);
    result.backward();
    update();
    return result.template item<float>();
  }

  Model& model() {
    return *model_;
  }

 private:
  std::shared_ptr<Model> model_;
  torch::optim::AdamW optimizer_;
};

} // namespace models
