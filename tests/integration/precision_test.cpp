#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "tests/support/against_plain.h"
#include "weft/nn/parallelize_module.h"
#include "weft/weft.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

namespace weft {

namespace precision_test {
using namespace weft::testing;

/// Autocast on the CPU to bfloat16 while it lasts, on this thread.
class Autocast {
 public:
  Autocast() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

/// Sums of bfloat16 values are rounded at other places on several ranks.
const AgainstPlainOptions kBFloat16 = {.tolerance = 2e-2};

at::Tensor float_parameter(c10::IntArrayRef sizes) {
  return parameter(sizes, at::kFloat);
}

TEST(Precision, MatrixProductsAreComputedInTheLowerPrecision) {
  const TensorProgram products = [](const Values& in) -> Values {
    const Autocast autocast;
    const auto linear = at::linear(in[0], in[1]);
    const auto matmul = in[0].matmul(in[1].t());
    const auto mm = at::mm(in[0], in[1].t());
    EXPECT_EQ(linear.scalar_type(), at::kBFloat16);
    EXPECT_EQ(matmul.scalar_type(), at::kBFloat16);
    EXPECT_EQ(mm.scalar_type(), at::kBFloat16);
    return {linear, matmul, mm};
  };
  expect_as_plain({float_parameter({4, 6}), float_parameter({8, 6})}, products, kBFloat16);
}

TEST(Precision, WhatNeedsRangeIsComputedInFullPrecision) {
  const TensorProgram program = [](const Values& in) -> Values {
    const Autocast autocast;
    const auto low = at::linear(in[0], in[1]);
    const auto loss = at::mse_loss(low, in[2]);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    return {loss, low + in[2]};
  };
  expect_as_plain({float_parameter({4, 6}), float_parameter({8, 6}), float_parameter({4, 8})}, program, kBFloat16);
}

TEST(Precision, GradientsOfParametersHaveTheirPrecision) {
  const TensorProgram program = [](const Values& in) -> Values {
    at::Tensor loss;
    {
      const Autocast autocast;
      const auto hidden = at::linear(in[0], in[1]).relu();
      loss = at::cross_entropy_loss(at::linear(hidden, in[2]), at::zeros_like(in[0].sum(1), at::kLong));
    }
    loss.backward();
    EXPECT_EQ(in[1].grad().scalar_type(), at::kFloat);
    return {loss, in[1].grad(), in[2].grad()};
  };
  expect_as_plain(
      {float_parameter({4, 6}).detach(), float_parameter({8, 6}), float_parameter({3, 8})}, program, kBFloat16);
}

std::vector<double> decoder_losses(const std::optional<DeviceMesh>& mesh) {
  const models::LlamaSizes sizes;
  models::Llama model(sizes);
  models::initialize(*model);
  if (mesh) {
    nn::parallelize_module(*model, *mesh, models::llama_plan());
  }
  models::Training training(model.ptr());
  std::vector<double> losses;
  for (int64_t step = 0; step < 5; ++step) {
    const auto batch = models::sequences(step, 8, sizes.length, sizes.vocabulary);
    at::Tensor loss;
    {
      const Autocast autocast;
      loss = training.loss(mesh ? batch.distribute(*mesh) : batch);
    }
    loss.backward();
    training.update();
    losses.push_back(loss.item<float>());
  }
  return losses;
}

TEST(Precision, ADecoderHasTheLossesOfOneDevice) {
  const auto expected = decoder_losses(std::nullopt);
  run_on_ranks(4, [&](int64_t /*rank*/) {
    const auto losses = decoder_losses(init_device_mesh("cpu", {2, 2}, {"dp", "tp"}));
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(losses[step], expected[step], kBFloat16.tolerance) << "in step " << step;
    }
  });
}

TEST(Precision, NothingIsCastOutsideOfAutocast) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto x = distribute_tensor(float_parameter({4, 6}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(float_parameter({8, 6}), mesh, {Replicate()});
    { const Autocast autocast; }
    EXPECT_EQ(at::linear(x, weight).scalar_type(), at::kFloat);
  });
}

} // namespace precision_test

} // namespace weft
