#pragma once

#include "examples/models/batch.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <memory>
#include <unordered_set>

namespace models {

/// The parameters of a model, each once: one that is tied has several names.
inline std::vector<torch::Tensor> parameters_of(const torch::nn::Module& model) {
  std::vector<torch::Tensor> result;
  std::unordered_set<c10::TensorImpl*> known;
  for (const auto& parameter : model.parameters()) {
    if (known.insert(parameter.unsafeGetTensorImpl()).second) {
      result.push_back(parameter);
    }
  }
  return result;
}

/// Of logits [..., classes] and classes [...].
inline torch::Tensor loss_of(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.flatten(0, -2), targets.flatten());
}

/// A model in training, on one device or on a mesh: as its parameters and batches are.
template <class Model>
class Training {
 public:
  explicit Training(std::shared_ptr<Model> model, double learning_rate = 0.01)
      : model_(std::move(model)),
        optimizer_(parameters_of(*model_), torch::optim::AdamWOptions(learning_rate).weight_decay(0.01)) {}

  torch::Tensor loss(const Batch& batch) {
    return loss_of(model_->forward(batch.inputs), batch.targets);
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
  torch::optim::AdamW& optimizer() {
    return optimizer_;
  }

 private:
  std::shared_ptr<Model> model_;
  torch::optim::AdamW optimizer_;
};

} // namespace models
