#include "weft/core/layout_algebra.h"

#include <gtest/gtest.h>

namespace weft {

namespace layout_algebra_test {
TEST(LayoutAlgebra, TheGradientOfATermIsThatOfTheSum) {
  EXPECT_EQ(
      without_partial({Shard(0), Partial(), Replicate(), Partial(ReduceOp::Max)}),
      (Layout{Shard(0), Replicate(), Replicate(), Replicate()}));
}

TEST(LayoutAlgebra, TheShardOrderStaysInTheGradient) {
  const auto layout = Layout::parse("{S(0)[1], P(sum), S(0)[0]}");
  EXPECT_EQ(without_partial(layout), Layout::parse("{S(0)[1], R, S(0)[0]}"));
}

TEST(LayoutAlgebra, AnAverageIsASumThatIsDividedApart) {
  const auto spec = TensorSpec::parse("f32[4] @ mesh(a=2,b=3,c=5) {P(avg), P(sum), P(avg)}");
  EXPECT_EQ(averaged_over(*spec), 10);
  EXPECT_EQ(with_sums_for_averages(spec->layout()), (Layout{Partial(), Partial(), Partial()}));
  EXPECT_EQ(averaged_over(*TensorSpec::parse("f32[4] @ mesh(a=2) {P(sum)}")), 1);
}

TEST(LayoutAlgebra, SumsAndAveragesAreLinear) {
  EXPECT_TRUE(is_linear({Shard(0), Replicate(), Partial(), Partial(ReduceOp::Avg)}));
  EXPECT_FALSE(is_linear({Shard(0), Partial(ReduceOp::Max)}));
}

} // namespace layout_algebra_test

} // namespace weft
