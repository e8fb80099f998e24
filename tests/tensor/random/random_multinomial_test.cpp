#include "weft/tensor/random/random_multinomial.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace random_multinomial_test {
using testing::error_text;

at::Tensor weights() {
  auto result = at::arange(1, 71, at::kFloat).view({7, 10});
  result.select(1, 3).zero_();
  return result;
}

at::Tensor samples(const at::Tensor& probabilities, int64_t count, bool replacement) {
  manual_seed(3);
  return at::multinomial(probabilities, count, replacement);
}

TEST(RandomMultinomial, SamplesAreTheSameInEveryLayoutAndStayWithTheirDistributions) {
  for (const auto& [count, replacement] : {std::pair(4, false), std::pair(1, false), std::pair(20, true)}) {
    at::Tensor expected;
    run_on_ranks(1, [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", {1});
      expected = full_tensor(samples(distribute_tensor(weights(), mesh, {Replicate()}), count, replacement));
    });
    EXPECT_EQ(expected.sizes(), c10::IntArrayRef({7, count}));
    EXPECT_FALSE(expected.eq(3).any().item<bool>()) << "a category without probability";
    run_on_ranks(3, [&](int64_t rank) {
      const auto mesh = init_device_mesh("cpu", {3});
      for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}}) {
        const auto drawn = samples(distribute_tensor(weights(), mesh, layout), count, replacement);
        EXPECT_EQ(placements(drawn)[0], layout[0] == Shard(0) ? Shard(0) : Replicate());
        EXPECT_TRUE(at::equal(full_tensor(drawn), expected)) << layout << ", rank " << rank;
      }
    });
  }
}

TEST(RandomMultinomial, FollowsTheProbabilities) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto ratios = at::tensor({1.0, 3.0, 0.0, 4.0}, at::kDouble);
    const auto drawn =
        full_tensor(samples(distribute_tensor(ratios.expand({2, 4}).contiguous(), mesh, {Shard(0)}), 20000, true));
    const auto shares = drawn.flatten().bincount({}, 4).to(at::kDouble) / drawn.numel();
    EXPECT_TRUE(at::allclose(shares, ratios / 8, 0, 0.01)) << shares;
    EXPECT_FALSE(at::equal(drawn[0], drawn[1]));
    const auto all = full_tensor(samples(distribute_tensor(ratios.add(1), mesh, {Replicate()}), 4, false));
    EXPECT_TRUE(at::equal(std::get<0>(all.sort()), at::arange(4)));
  });
}

TEST(RandomMultinomial, IsStoredInAnyLayout) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto sharded = distribute_tensor(weights(), mesh, {Shard(0)});
    const auto expected = full_tensor(samples(sharded, 4, false));
    for (const auto& placement : {Replicate(), Shard(0), Shard(1)}) {
      auto out = distribute_tensor(at::zeros({7, 4}, at::kLong), mesh, {placement});
      manual_seed(3);
      EXPECT_TRUE(at::multinomial_out(out, sharded, 4).is_same(out));
      EXPECT_TRUE(at::equal(full_tensor(out), expected));
    }
  });
}

TEST(RandomMultinomial, ArgumentsThatAreNoDistributionsRaise) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto error_of = [&](const at::Tensor& global, int64_t count) {
      const auto tensor = distribute_tensor(global, mesh, {Shard(0)});
      return error_text<c10::ValueError>([&] { at::multinomial(tensor, count); });
    };
    EXPECT_EQ(
        error_of(at::ones({4, 3}), 4),
        "[multinomial] between 1 and 3 samples are required, more only with replacement, but got 4 for f32[4,3] @ "
        "mesh(d0=2) {S(0)}.");
    EXPECT_EQ(
        error_of(at::ones({4, 3}, at::kLong), 1),
        "[multinomial] probabilities of floating dtype and 1 or 2 dims are required, but got i64[4,3] @ mesh(d0=2) "
        "{S(0)}.");
    auto negative = at::ones({4, 3});
    negative[3][1] = -1; // on one of the ranks
    const auto expected =
        "[multinomial] finite probabilities of at least 0, with a sum above 0, are required, but got others in "
        "f32[4,3] @ mesh(d0=2) {S(0)}.";
    EXPECT_EQ(error_of(negative, 1), expected);
    EXPECT_EQ(error_of(at::zeros({4, 3}), 1), expected);
  });
}

} // namespace random_multinomial_test

} // namespace weft
