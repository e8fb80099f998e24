#include "weft/nn/replace_parameters.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <gtest/gtest.h>
#include <torch/nn/modules.h>

namespace weft::nn {

namespace replace_parameters_test {
namespace tnn = torch::nn;
using namespace weft::testing;

/// Replaces every parameter and buffer of a module by a distributed one of the same values.
void distribute_all(tnn::Module& module, const DeviceMesh& mesh) {
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : tensors) {
      replace_parameter(module, item.key(), distribute_tensor(item->detach(), mesh, {Replicate()}));
    }
  }
}

/// The output of a module whose tensors have been replaced is distributed, so forward reads the new tensors, and it has
/// the values from before.
template <class M, class... Inputs>
void expect_forward_reads_the_new_tensors(M module, const Inputs&... inputs) {
  SCOPED_TRACE(module->name());
  at::manual_seed(0);
  const auto first = [](const auto& output) {
    if constexpr (std::is_same_v<std::decay_t<decltype(output)>, at::Tensor>) {
      return output;
    } else {
      return std::get<0>(output);
    }
  };
  module->eval();
  const auto expected = first(module->forward(inputs...)).detach();
  const auto shared = std::dynamic_pointer_cast<typename M::ContainedType>(module->clone());
  on_mesh({1}, [&](const DeviceMesh& mesh) {
    distribute_all(*shared, mesh);
    const auto output = first(shared->forward(distribute_tensor(inputs, mesh, {Replicate()})...));
    EXPECT_TRUE(is_dtensor(output));
    EXPECT_TRUE(at::allclose(full_tensor(output).detach(), expected));
    for (const auto& parameter : shared->parameters()) {
      EXPECT_TRUE(parameter.requires_grad());
    }
  });
}

TEST(ReplaceParameter, ForwardOfTorchsModulesReadsTheNewTensor) {
  const auto x = at::rand({2, 4});
  const auto images = at::rand({2, 4, 5, 5});
  const auto sequence = at::rand({2, 4, 5});
  const auto volume = at::rand({2, 4, 3, 3, 3});
  expect_forward_reads_the_new_tensors(tnn::Linear(4, 3), x);
  expect_forward_reads_the_new_tensors(tnn::Linear(tnn::LinearOptions(4, 3).bias(false)), x);
  expect_forward_reads_the_new_tensors(tnn::Bilinear(4, 4, 3), x, x);
  expect_forward_reads_the_new_tensors(tnn::LayerNorm(tnn::LayerNormOptions({4})), x);
  expect_forward_reads_the_new_tensors(tnn::GroupNorm(2, 4), images);
  expect_forward_reads_the_new_tensors(tnn::Conv1d(4, 2, 3), sequence);
  expect_forward_reads_the_new_tensors(tnn::Conv2d(4, 2, 3), images);
  expect_forward_reads_the_new_tensors(tnn::Conv3d(4, 2, 3), volume);
  expect_forward_reads_the_new_tensors(tnn::BatchNorm1d(4), x);
  expect_forward_reads_the_new_tensors(tnn::BatchNorm2d(4), images);
  expect_forward_reads_the_new_tensors(tnn::BatchNorm3d(4), volume);
  expect_forward_reads_the_new_tensors(
      tnn::InstanceNorm2d(tnn::InstanceNormOptions(4).affine(true).track_running_stats(true)), images);
  expect_forward_reads_the_new_tensors(tnn::PReLU(tnn::PReLUOptions().num_parameters(4)), x);
  expect_forward_reads_the_new_tensors(tnn::Embedding(7, 4), at::randint(7, {3}));
}

template <class M>
void expect_replaced(M module, std::vector<at::Tensor> (*members)(typename M::ContainedType&)) {
  SCOPED_TRACE(module->name());
  on_mesh({1}, [&](const DeviceMesh& mesh) {
    const auto shared = std::dynamic_pointer_cast<typename M::ContainedType>(module->clone());
    distribute_all(*shared, mesh);
    for (const auto& member : members(*shared)) {
      EXPECT_TRUE(is_dtensor(member));
    }
  });
}

TEST(ReplaceParameter, KnowsTheMembersOfAttentionAndOfRecurrentModules) {
  expect_replaced(
      tnn::RNNCell(3, 2), +[](tnn::RNNCellImpl& cell) {
        return std::vector<at::Tensor>{cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh};
      });
  expect_replaced(tnn::LSTM(3, 2), +[](tnn::LSTMImpl& lstm) { return lstm.all_weights(); });
  expect_replaced(tnn::GRU(3, 2), +[](tnn::GRUImpl& gru) { return gru.all_weights(); });
  on_mesh({1}, [](const DeviceMesh& mesh) {
    tnn::MultiheadAttention attention(tnn::MultiheadAttentionOptions(4, 2).add_bias_kv(true));
    for (const auto& item : attention->named_parameters(/*recurse=*/false)) {
      replace_parameter(*attention, item.key(), distribute_tensor(item->detach(), mesh, {Replicate()}));
    }
    for (const auto& member :
         {attention->in_proj_weight, attention->in_proj_bias, attention->bias_k, attention->bias_v}) {
      EXPECT_TRUE(is_dtensor(member));
    }
  });
}

TEST(ReplaceParameter, AListReadsItsTensorsByName) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    tnn::ParameterList list;
    list->append(at::ones({2}).requires_grad_());
    distribute_all(*list, mesh);
    EXPECT_TRUE(is_dtensor((*list)[0]) && (*list)[0].requires_grad());
  });
}

struct ScaleImpl : tnn::Module, Replaceable {
  at::Tensor weight = register_parameter("weight", at::ones({4}));
  TensorMembers tensor_members() override {
    return {{"weight", &weight}};
  }
};

struct UnknownImpl : tnn::Module {
  at::Tensor weight = register_parameter("weight", at::ones({4}));
};

TEST(ReplaceParameter, AModuleOfOnesOwnNamesItsMembers) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    ScaleImpl scale;
    replace_parameter(scale, "weight", distribute_tensor(at::ones({4}), mesh, {Shard(0)}));
    EXPECT_TRUE(is_dtensor(scale.weight));
    EXPECT_TRUE(scale.weight.is_same(scale.named_parameters()["weight"]));
    UnknownImpl unknown;
    expect_contains(
        error_text<c10::NotImplementedError>(
            [&] { replace_parameter(unknown, "weight", distribute_tensor(at::ones({4}), mesh, {Shard(0)})); }),
        "keeps 'weight' must be known. Derive it from weft::nn::Replaceable and name the member in tensor_members().");
    EXPECT_FALSE(is_dtensor(unknown.weight));
  });
}

TEST(ReplaceParameter, OfTheSameSpecTheOldOneTakesTheMemoryOverWhereverItIs) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto meta = distribute_tensor(at::empty({4}, at::kMeta), mesh, {Shard(0)});
    ScaleImpl scale;
    replace_parameter(scale, "weight", meta);
    UnknownImpl unknown;
    unknown.register_parameter("tied", scale.weight);
    const auto ones = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    replace_parameter(unknown, "tied", ones);
    EXPECT_EQ(scale.weight.device().type(), at::kCPU);
    EXPECT_TRUE(scale.weight.requires_grad());
    EXPECT_TRUE(to_local(scale.weight).is_alias_of(to_local(ones)));
  });
}

TEST(ReplaceParameter, WhatCannotBeReplacedIsAnError) {
  tnn::Linear linear(2, 3);
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { replace_parameter(*linear, "scale", at::ones({1})); }),
      "[replace_parameter] a parameter or buffer of torch::nn::LinearImpl is required, but got 'scale'. It has: "
      "weight bias.");
  expect_contains(
      error_text<c10::ValueError>([&] { replace_parameter(*linear, "weight", linear->weight * 2); }),
      "a leaf is required for 'weight' of torch::nn::LinearImpl, but got a tensor that has a history. Detach it "
      "first.");
  expect_contains(
      error_text<c10::ValueError>([&] { replace_parameter(*linear, "weight", at::Tensor()); }),
      "but got an undefined tensor.");
  linear->weight = at::ones({3, 2});
  expect_contains(
      error_text<c10::ValueError>([&] { replace_parameter(*linear, "weight", at::ones({3, 2})); }),
      "must be the tensor that is registered under that name, but it is another one.");
}

} // namespace replace_parameters_test

} // namespace weft::nn
