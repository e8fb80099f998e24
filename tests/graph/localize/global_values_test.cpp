#include "weft/graph/localize/global_values.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace global_values_test {
using namespace weft::testing;

std::vector<at::Tensor> locals_of(const at::Tensor& global, const Layout& layout, std::vector<int64_t> shape) {
  std::vector<at::Tensor> locals;
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t j = 0; j < shape[1]; ++j) {
      locals.push_back(local_value(global, layout, {shape, {i, j}}));
    }
  }
  return locals;
}

TEST(WholeValues, JoinedLocalTensorsAreTheGlobalTensor) {
  const auto global = at::arange(35).view({5, 7});
  const std::vector<Layout> layouts = {{Replicate(), Replicate()}, {Shard(0), Replicate()},
                                       {Replicate(), Shard(1)},    {Shard(0), Shard(1)},
                                       {Shard(1), Shard(1)},       Layout({Shard(0), Shard(0)}, {1, 0})};
  for (const auto& layout : layouts) {
    const auto joined = global_value(locals_of(global, layout, {2, 3}), layout, {2, 3});
    EXPECT_TRUE(joined.equal(global)) << layout;
  }
}

TEST(WholeValues, TermsAreReduced) {
  const auto of = [](ReduceOp op) {
    return global_value({at::full({2}, 2.0), at::full({2}, 4.0)}, Layout({Partial(op)}), {2})[0].item<double>();
  };
  EXPECT_EQ(of(ReduceOp::Sum), 6);
  EXPECT_EQ(of(ReduceOp::Avg), 3);
  EXPECT_EQ(of(ReduceOp::Max), 4);
  EXPECT_EQ(of(ReduceOp::Min), 2);
  EXPECT_EQ(of(ReduceOp::Product), 8);
}

TEST(WholeValues, AStridedShardHasSomeOfEveryBlock) {
  const auto local = local_value(at::arange(8), Layout({StridedShard(0, 2)}), {{2}, {1}});
  EXPECT_TRUE(local.equal(at::tensor({2, 3, 6, 7}, at::kLong)));
}

TEST(WholeValues, RanksThatShouldHoldTheSameAndDoNotAreAnError) {
  expect_contains(
      error_text([] { global_value({at::zeros({2}), at::ones({2})}, Layout({Replicate()}), {2}); }),
      "[global_value] ranks that should hold the same tensor of shape [2] do not.");
  expect_contains(
      error_text<c10::NotImplementedError>(
          [] { global_value({at::zeros({2}), at::ones({2})}, Layout({StridedShard(0, 2)}), {2}); }),
      "[global_value] strided shards cannot be joined, but got SS(0,2).");
}

} // namespace global_values_test

} // namespace weft::graph
