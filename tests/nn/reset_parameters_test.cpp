#include "weft/nn/reset_parameters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/nn/modules.h>
#include <torch/nn/modules/transformer.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>

namespace weft::nn {

namespace reset_parameters_test {
namespace tnn = torch::nn;

/// Resets children before their parents, as constructors run.
void reset_all(tnn::Module& module) {
  for (const auto& child : module.children()) {
    reset_all(*child);
  }
  reset_parameters(module);
}

/// Resetting with the same seed gives the values of the constructor.
template <class M>
void expect_as_constructed(const std::function<M()>& make) {
  torch::manual_seed(5);
  auto module = make();
  SCOPED_TRACE(module->name());
  const auto next = at::rand({3});
  std::vector<at::Tensor> expected;
  for (auto& tensors : {module->parameters(), module->buffers()}) {
    for (const auto& tensor : tensors) {
      expected.push_back(tensor.detach().clone());
      tensor.detach().fill_(7);
    }
  }
  torch::manual_seed(5);
  reset_all(*module);
  EXPECT_TRUE(at::equal(at::rand({3}), next)) << "another number of draws";
  size_t i = 0;
  for (auto& tensors : {module->parameters(), module->buffers()}) {
    for (const auto& tensor : tensors) {
      EXPECT_TRUE(at::equal(tensor, expected[i++]));
    }
  }
}

TEST(ResetParameters, GivesWhatTheConstructorGives) {
  expect_as_constructed<tnn::Linear>([] { return tnn::Linear(4, 3); });
  expect_as_constructed<tnn::Bilinear>([] { return tnn::Bilinear(4, 3, 2); });
  expect_as_constructed<tnn::Embedding>([] { return tnn::Embedding(tnn::EmbeddingOptions(7, 3).padding_idx(2)); });
  expect_as_constructed<tnn::EmbeddingBag>([] { return tnn::EmbeddingBag(7, 3); });
  expect_as_constructed<tnn::LayerNorm>([] { return tnn::LayerNorm(tnn::LayerNormOptions({4})); });
  expect_as_constructed<tnn::GroupNorm>([] { return tnn::GroupNorm(2, 4); });
  expect_as_constructed<tnn::Conv1d>([] { return tnn::Conv1d(4, 2, 3); });
  expect_as_constructed<tnn::Conv2d>([] { return tnn::Conv2d(4, 2, 3); });
  expect_as_constructed<tnn::Conv3d>([] { return tnn::Conv3d(4, 2, 3); });
  expect_as_constructed<tnn::ConvTranspose2d>([] { return tnn::ConvTranspose2d(4, 2, 3); });
  expect_as_constructed<tnn::BatchNorm2d>([] { return tnn::BatchNorm2d(4); });
  expect_as_constructed<tnn::InstanceNorm2d>(
      [] { return tnn::InstanceNorm2d(tnn::InstanceNormOptions(4).affine(true).track_running_stats(true)); });
  expect_as_constructed<tnn::PReLU>([] { return tnn::PReLU(tnn::PReLUOptions().num_parameters(3).init(0.5)); });
  expect_as_constructed<tnn::LSTM>([] { return tnn::LSTM(4, 3); });
  expect_as_constructed<tnn::GRUCell>([] { return tnn::GRUCell(4, 3); });
  expect_as_constructed<tnn::MultiheadAttention>([] { return tnn::MultiheadAttention(4, 2); });
  expect_as_constructed<tnn::TransformerEncoderLayer>(
      [] { return tnn::TransformerEncoderLayer(tnn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(8)); });
  expect_as_constructed<tnn::TransformerDecoderLayer>(
      [] { return tnn::TransformerDecoderLayer(tnn::TransformerDecoderLayerOptions(4, 2).dim_feedforward(8)); });
  expect_as_constructed<tnn::Sequential>([] {
    tnn::Sequential layers;
    layers->push_back(tnn::Linear(4, 3));
    layers->push_back(tnn::ReLU());
    layers->push_back(tnn::Linear(3, 4));
    return layers;
  });
}

struct Scale : tnn::Module, Resettable {
  at::Tensor weight = register_parameter("weight", at::zeros({2}));
  void reset_parameters() override {
    tnn::init::ones_(weight);
  }
};

struct Unknown : tnn::Module {};

TEST(ResetParameters, AModuleOfOnesOwnSaysHow) {
  Scale scale;
  EXPECT_TRUE(reset_parameters(scale));
  EXPECT_TRUE(at::equal(scale.weight, at::ones({2})));
  Unknown unknown;
  EXPECT_FALSE(reset_parameters(unknown));
}

} // namespace reset_parameters_test

} // namespace weft::nn
