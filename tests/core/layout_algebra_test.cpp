#include "weft/core/layout_algebra.h"

#include <gtest/gtest.h>

namespace weft {

namespace layout_algebra_test {
TEST(LayoutAlgebra, TheGradientOfAPartialTensorIsReplicated) {
  EXPECT_EQ(
      without_partial({Shard(0), Partial(), Replicate(), Partial(ReduceOp::Max)}),
      (Layout{Shard(0), Replicate(), Replicate(), Replicate()}));
}

TEST(LayoutAlgebra, TheShardOrderStaysInTheGradient) {
  const auto layout = Layout::parse("{S(0)[1], P(sum), S(0)[0]}");
  EXPECT_EQ(without_partial(layout), Layout::parse("{S(0)[1], R, S(0)[0]}"));
}

TEST(LayoutAlgebra, AnAverageIsASumThatTheCallerDivides) {
  const auto spec = TensorSpec::parse("f32[4] @ mesh(a=2,b=3,c=5) {P(avg), P(sum), P(avg)}");
  EXPECT_EQ(averaged_over(*spec), 10);
  EXPECT_EQ(with_sums_for_averages(spec->layout()), (Layout{Partial(), Partial(), Partial()}));
  EXPECT_EQ(averaged_over(*TensorSpec::parse("f32[4] @ mesh(a=2) {P(sum)}")), 1);
}

TEST(LayoutAlgebra, SumsAndAveragesAreLinear) {
  EXPECT_TRUE(is_linear({Shard(0), Replicate(), Partial(), Partial(ReduceOp::Avg)}));
  EXPECT_FALSE(is_linear({Shard(0), Partial(ReduceOp::Max)}));
}

TEST(LayoutAlgebra, ShardsOfADimKeepTheirOrderInAnotherDim) {
  const auto lower = [](const Placement& p) {
    return p.is_shard(0) ? Replicate() : StridedShard(p.dim() - 1, p.split_factor());
  };
  EXPECT_EQ(
      map_shards(Layout::parse("{S(1)[1], P(sum), SS(1,2)[0], S(0)}"), lower),
      Layout::parse("{S(0)[1], P(sum), SS(0,2)[0], R}"));
}

TEST(LayoutAlgebra, RWhereItIsAskedForLeavesTheOrderOfOtherShards) {
  const auto layout = Layout::parse("{S(0)[2], S(0)[0], S(0)[1], P(max)}");
  EXPECT_EQ(replicated_where(layout, [](int64_t m) { return m == 1; }), Layout::parse("{S(0)[1], R, S(0)[0], P(max)}"));
}

TEST(LayoutAlgebra, ATensorIsReplicatedIfEveryMeshDimIs) {
  EXPECT_TRUE(is_replicated({Replicate(), Replicate()}));
  EXPECT_FALSE(is_replicated({Replicate(), Shard(0)}));
  EXPECT_FALSE(is_replicated({Partial(), Replicate()}));
}

TEST(LayoutAlgebra, SumsAndAveragesCommuteAndNothingElse) {
  EXPECT_TRUE(partials_commute({Partial(), Partial(ReduceOp::Avg), Shard(0)}));
  EXPECT_TRUE(partials_commute({Partial(ReduceOp::Max), Partial(ReduceOp::Max)}));
  EXPECT_FALSE(partials_commute({Partial(), Replicate(), Partial(ReduceOp::Max)}));
}

TEST(LayoutAlgebra, AShardDoesNotBecomeAPartialValue) {
  EXPECT_TRUE(is_refused({Replicate(), Shard(0)}, {Replicate(), Partial()}));
  EXPECT_FALSE(is_refused({Shard(0), Replicate()}, {Replicate(), Partial()}));
}

} // namespace layout_algebra_test

} // namespace weft
