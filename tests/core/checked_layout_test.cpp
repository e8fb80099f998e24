#include "weft/core/checked_layout.h"
#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace checked_layout_test {
using testing::error_text;

TEST(CheckedLayout, CountsNegativeDimsFromTheEnd) {
  const auto mesh = DeviceMesh::parse("mesh(a=2)");
  EXPECT_EQ(checked_layout("x", mesh, {Shard(-1)}, 3), (Layout{Shard(2)}));
  EXPECT_EQ(checked_layout("x", mesh, {Partial()}, 3), (Layout{Partial()}));
}

TEST(CheckedLayout, TheWorldNotesUnequalBlocksOnce) {
  const auto world = c10::make_intrusive<World>(0, 2);
  const DeviceMesh mesh(world, c10::kCPU, {2});
  for (const auto& placement : {Shard(0), StridedShard(1, {2, 1}), StridedShard(0, 3), StridedShard(-1, {4, 2})}) {
    checked_layout("x", mesh, {placement}, 2);
  }
  EXPECT_EQ(world->unequal_blocks(), std::vector{StridedShard(0, {2, 1})});
}

TEST(CheckedLayout, ARaggedShardHasOneLengthPerRankOfItsMeshDim) {
  const auto mesh = DeviceMesh::parse("mesh(a=2,b=3)");
  EXPECT_NO_THROW(checked_layout("x", mesh, {RaggedShard(0, {1, 2}), RaggedShard(-1, {1, 2, 0})}, 2));
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { checked_layout("x", mesh, {Replicate(), RaggedShard(0, {1, 2})}, 2); }),
      "[x] a ragged shard requires one length for each of the 3 ranks of mesh dim b, but got S(0|1:2). Give as many "
      "lengths.");
}

TEST(CheckedLayout, RaisesForPartialPlacementsWhereNoneIsTaken) {
  const auto mesh = DeviceMesh::parse("mesh(a=2)");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { checked_without_partial("zeros", mesh, {Partial()}, 1); }),
      "[zeros] placements R and S are required, but got {P(sum)}. A partial value comes out of operators only; use "
      "from_local "
      "to make one.");
}

TEST(CheckedLayout, AGradientIsShardedAsItsTensor) {
  const auto spec = TensorSpec::parse("f32[4,6] @ mesh(a=2,b=2) {S(0), P(sum)}");
  EXPECT_EQ(checked_gradient_layout("x", *spec, std::nullopt), (Layout{Shard(0), Replicate()}));
  EXPECT_EQ(checked_gradient_layout("x", *spec, Layout{Shard(0), Partial()}), (Layout{Shard(0), Partial()}));
  EXPECT_THROW(checked_gradient_layout("x", *spec, Layout{Shard(1), Replicate()}), c10::ValueError);
  EXPECT_THROW(checked_gradient_layout("x", *spec, Layout{Shard(0), Partial(ReduceOp::Max)}), c10::ValueError);
}

TEST(CheckedLayout, AMaximumHasNoGradientThatIsKnown) {
  check_has_gradient("x", *TensorSpec::parse("f32[4] @ mesh(a=2) {P(avg)}"));
  EXPECT_THROW(check_has_gradient("x", *TensorSpec::parse("f32[4] @ mesh(a=2) {P(max)}")), c10::NotImplementedError);
}

} // namespace checked_layout_test

} // namespace weft
