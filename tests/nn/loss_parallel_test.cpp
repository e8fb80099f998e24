#include "weft/nn/loss_parallel.h"

#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

#include <torch/nn/functional/loss.h>

namespace weft::nn {

namespace loss_parallel_test {
using namespace weft::testing;
namespace F = torch::nn::functional;

TEST(LossParallel, TakesAPlainTarget) {
  const auto target = at::tensor({0, 5, 2, 3}, at::kLong);
  const auto expected = F::cross_entropy(parameter({4, 6}), target);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    for (const auto& layout : {Layout{Shard(1)}, Layout{Shard(0)}, Layout{Replicate()}}) {
      const auto logits = distribute_tensor(parameter({4, 6}).detach(), mesh, layout).set_requires_grad(true);
      const LossParallel scope;
      const auto loss = F::cross_entropy(logits, target);
      loss.backward();
      EXPECT_TRUE(at::allclose(full_tensor(loss.detach()), expected.detach()));
      EXPECT_EQ(spec_of(logits.grad())->layout(), layout);
    }
  });
}

TEST(LossParallel, EndsWithItsScope) {
  EXPECT_FALSE(Scopes::of_thread().loss_parallel);
  {
    const LossParallel scope;
    EXPECT_TRUE(Scopes::of_thread().loss_parallel);
    {
      const LossParallel inner(/*enabled=*/false);
      EXPECT_FALSE(Scopes::of_thread().loss_parallel);
    }
    EXPECT_TRUE(Scopes::of_thread().loss_parallel);
  }
  EXPECT_FALSE(Scopes::of_thread().loss_parallel);
}

TEST(LossParallel, WhatWouldGatherTheLogitsRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(1)});
    const auto target = distribute_tensor(at::tensor({0, 5, 2, 3}, at::kByte), mesh, {Replicate()});
    {
      const LossParallel scope;
      EXPECT_EQ(
          error_text<c10::NotImplementedError>([&] { F::cross_entropy(logits, target); }),
          "[loss_parallel] a target of classes (int64) or probabilities is required, and weights without gradient of "
          "the logits' dtype, but got a target of Byte for logits f64[4,6] @ mesh(a=2) {S(1)}. Cast them, or leave the "
          "scope: outside the logits are gathered.");
    }
    EXPECT_TRUE(at::allclose(
        full_tensor(F::cross_entropy(logits, target)),
        F::cross_entropy(parameter({4, 6}).detach(), at::tensor({0, 5, 2, 3}, at::kByte))));
  });
}

} // namespace loss_parallel_test

} // namespace weft::nn
