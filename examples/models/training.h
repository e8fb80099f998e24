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
  Training(std::shared_ptr<Model> model, double learning_rate)
      : model_(std::move(model)),
        optimizer_(model_->parameters(), torch::optim::AdamWOptions(learning_rate).weight_decay(0.01)) {}

  /// The loss before the parameters were changed.
  double step(const Batch& batch) {
    optimizer_.zero_grad();
    const auto logits = model_->forward(batch.inputs);
    const auto loss = torch::nn::functional::cross_entropy(logits.flatten(0, -2), batch.targets.flatten());
    loss.backward();
    optimizer_.step();
    return loss.template item<float>();
  }

  Model& model() {
    return *model_;
  }

 private:
  std::shared_ptr<Model> model_;
  torch::optim::AdamW optimizer_;
};

} // namespace models
