#include "tests/support/counting_allocator.h"
#include "weft/comm/world/fake_world.h"
#include "weft/nn/fully_shard.h"
#include "weft/nn/parallel.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

namespace weft::nn {

namespace fully_shard_memory_test {

constexpr int64_t kRanks = 4, kBlocks = 24, kDim = 256, kOutputs = 128;
constexpr double kUnit = kDim * kDim * sizeof(float);
constexpr double kOuter = kDim * kOutputs * sizeof(float);
constexpr double kParameters = kBlocks * kUnit + kOuter;

using Layer = Parallel<torch::nn::Linear>;

/// Equal blocks, and a layer outside of them.
struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks->push_back(Layer(torch::nn::LinearOptions(kDim, kDim).bias(false)));
    }
  }
  at::Tensor forward(const at::Tensor& input) {
    auto x = input;
    for (const auto& block : *blocks) {
      x = at::relu(block->as<Layer::ContainedType>()->forward(x));
    }
    return last(x);
  }
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
  torch::nn::Linear last =
      register_module("last", torch::nn::Linear(torch::nn::LinearOptions(kDim, kOutputs).bias(false)));
};
TORCH_MODULE(Model);

/// The most memory that one rank of four has in the third step: parameters, gradients, optimizer state and buffers. The other ranks
/// are fake, so that they allocate nothing, and neither does what carries messages.
double peak_of_third_step(testing::CountingAllocator& allocator, const FullyShardOptions& options) {
  const testing::CountAllocations scope(allocator);
  const DeviceMesh mesh(make_fake_world(kRanks, 1), c10::kCPU, {kRanks}, {"dp"});
  Parallel<Model> model;
  for (const auto& block : *model->blocks) {
    fully_shard(*block, mesh, options);
  }
  fully_shard(*model, mesh, options);
  torch::optim::AdamW optimizer(model->parameters());
  const auto input = at::ones({1, kDim}, options.param_dtype.value_or(at::kFloat));
  for (int step = 0; step < 3; ++step) {
    allocator.restart();
    model->forward(input).sum().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return static_cast<double>(allocator.peak());
}

TEST(FullyShardMemory, IsThatOfTheFormula) {
  static testing::CountingAllocator allocator;
  const auto peak = peak_of_third_step(allocator, {});
  // The gradients of the outermost unit wait for those of all modules inside.
  const auto expected = 4 * kParameters / kRanks + 2 * kOuter + 2 * kUnit + 2 * kUnit;
  EXPECT_NEAR(peak / expected, 1, 0.02) << peak << " instead of " << expected;
}

TEST(FullyShardMemory, WithoutReshardingIsAllParametersAtTheBeginningOfBackward) {
  static testing::CountingAllocator allocator;
  const auto peak = peak_of_third_step(allocator, {.reshard_after_forward = false});
  const auto expected = 3 * kParameters / kRanks + kParameters + kOuter + 2 * kUnit;
  EXPECT_NEAR(peak / expected, 1, 0.02) << peak << " instead of " << expected;
}

/// Of a model that is gathered in bfloat16.
double peak_of_cast_model(testing::CountingAllocator& allocator, at::ScalarType reduce_dtype) {
  const auto allowed = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false); // which asks allocators for more than this one counts
  const auto peak = peak_of_third_step(allocator, {.param_dtype = at::kBFloat16, .reduce_dtype = reduce_dtype});
  at::globalContext().setUserEnabledMkldnn(allowed);
  return peak;
}

TEST(FullyShardMemory, WithOtherDtypesIsThatOfTheFormula) {
  static testing::CountingAllocator allocator;
  const auto peak = peak_of_cast_model(allocator, at::kFloat);
  // In half: gathered parameters, gradients of the outermost unit and of the one that computes, and the copy that is cast.
  const auto expected = 4 * kParameters / kRanks + (2 * kOuter + 3 * kUnit + kUnit / kRanks) / 2 + kUnit;
  EXPECT_NEAR(peak / expected, 1, 0.02) << peak << " instead of " << expected;
}

TEST(FullyShardMemory, GradientsThatAreReducedInHalfAreCastOneUnitAfterTheOther) {
  static testing::CountingAllocator allocator;
  const auto peak = peak_of_cast_model(allocator, at::kBFloat16);
  // At the end of the pass, with two free buffers and the one of the outermost unit's gradients.
  const auto expected = 4 * kParameters / kRanks + (2 * kUnit + kOuter) / 2;
  EXPECT_NEAR(peak / expected, 1, 0.02) << peak << " instead of " << expected;
}

} // namespace fully_shard_memory_test

} // namespace weft::nn
