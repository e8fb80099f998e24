#include "weft/tensor/random/initialization_scope.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

namespace weft {

namespace initialization_scope_test {
using namespace weft::testing;

at::Generator seeded(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

TEST(InitializationScope, PlainTensorsDrawFromItsGenerator) {
  auto generator = seeded(4);
  const auto normal = at::randn({20}, generator);
  const auto order = at::randperm(9, generator);
  const auto uniform = at::empty({3}).uniform_(0, 1, generator);
  const InitializationScope scope(4);
  expect_equal(at::randn({20}), normal);
  expect_equal(at::randperm(9), order);
  expect_equal(at::empty({3}).uniform_(), uniform);
}

TEST(InitializationScope, LeavesTheOtherRandomNumbersAsTheyAre) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    manual_seed(3);
    const auto before = random_state();
    const auto tensor = weft::empty({4}, mesh, {Shard(0)});
    {
      const InitializationScope scope(1);
      tensor.uniform_();
    }
    EXPECT_EQ(random_state(), before);
    tensor.uniform_();
    EXPECT_NE(random_state(), before);
  });
}

TEST(InitializationScope, InitialisersOfTorchGiveTheValuesOfOneDevice) {
  using namespace torch::nn::init;
  const std::vector<std::function<void(at::Tensor)>> initialisers = {
      [](at::Tensor t) { kaiming_uniform_(t, std::sqrt(5)); },
      [](at::Tensor t) { kaiming_normal_(t); },
      [](at::Tensor t) { xavier_uniform_(t); },
      [](at::Tensor t) { xavier_normal_(t, 2); },
      [](at::Tensor t) { orthogonal_(t); },
      [](at::Tensor t) { dirac_(t.unsqueeze(2)); },
      [](at::Tensor t) { eye_(t); },
  };
  for (size_t i = 0; i < initialisers.size(); ++i) {
    SCOPED_TRACE(i);
    const auto global = at::zeros({8, 6});
    {
      const InitializationScope scope(6);
      initialisers[i](global);
    }
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      for (const auto& layout : {Layout({Replicate()}), Layout({Shard(0)}), Layout({Shard(1)})}) {
        SCOPED_TRACE(layout.to_string());
        const InitializationScope scope(6);
        const auto tensor = weft::zeros({8, 6}, mesh, layout);
        initialisers[i](tensor);
        expect_equal(to_local(tensor), part_of(global, mesh, layout));
      }
    });
  }
}

TEST(InitializationScope, CommunicatesNothing) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto tensor = weft::empty({8, 6}, mesh, {Shard(0), Shard(1)});
    const CommLog log(mesh);
    const InitializationScope scope(1);
    torch::nn::init::kaiming_uniform_(tensor, std::sqrt(5));
    EXPECT_EQ(log.calls(), 0);
  });
}

TEST(InitializationScope, KnowsWhatWasWritten) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto make = [&] { return weft::empty({8, 6}, mesh, {Shard(0)}); };
    const std::vector<at::Tensor> tensors = {make(), make(), make(), make(), make()};
    const auto plain = at::empty({3});
    const InitializationScope scope(1);
    tensors[0].uniform_();
    tensors[1].detach().zero_();
    tensors[2].slice(1, 0, 2).fill_(1);
    at::_foreach_zero_({tensors[3]});
    plain.fill_(2);
    for (const auto i : {0, 1, 2, 3}) {
      EXPECT_TRUE(scope.has_written(tensors[i])) << i;
    }
    EXPECT_TRUE(scope.has_written(plain));
    (tensors[4] + 1).relu_();
    EXPECT_FALSE(scope.has_written(tensors[4]));
    EXPECT_FALSE(scope.has_written(at::empty({3})));
  });
}

TEST(InitializationScope, WhatIsNotDrawnInPlaceIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = weft::ones({8, 6}, mesh, {Shard(0)});
    const InitializationScope scope(1);
    expect_contains(
        error_text<c10::NotImplementedError>([&] { at::bernoulli(tensor); }),
        "[InitializationScope] random numbers of distributed tensors are drawn by uniform_, normal_ and the other "
        "fills "
        "in place, but another operator asked for some. Make a tensor and fill it.");
  });
}

TEST(InitializationScope, AGeneratorOnTheCpuIsRequired) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { InitializationScope scope{at::Generator()}; }),
      "[InitializationScope] a generator on the CPU is required, but got none. Make it with "
      "at::make_generator<at::CPUGeneratorImpl>(seed), or give a seed.");
}

#ifdef WEFT_TEST_CUDA
TEST(InitializationScope, TensorsOnCudaGetTheNumbersOfTheCpu) {
  const auto fills = [](const at::Tensor& tensor) {
    tensor.uniform_();
    tensor.select(0, 1).zero_();
    return at::randperm(7, tensor.options().dtype(at::kLong));
  };
  const auto expected = at::empty({5, 30});
  at::Tensor order;
  {
    const InitializationScope scope(8);
    order = fills(expected);
  }
  const auto plain = at::empty({5, 30}, at::kCUDA);
  {
    const InitializationScope scope(8);
    expect_equal(fills(plain).cpu(), order);
  }
  expect_equal(plain.cpu(), expected);
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cuda", {2});
    for (const auto& layout : {Layout({Shard(0)}), Layout({Shard(1)}), Layout({Replicate()})}) {
      const auto tensor = weft::empty({5, 30}, mesh, layout);
      const InitializationScope scope(8);
      fills(tensor);
      expect_equal(to_local(tensor).cpu(), part_of(expected, mesh, layout));
    }
  });
}
#endif

} // namespace initialization_scope_test

} // namespace weft
