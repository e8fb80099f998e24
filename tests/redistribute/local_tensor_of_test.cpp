#include "weft/redistribute/local_tensor_of.h"

#include "tests/support/layout_cases.h"

#include <gtest/gtest.h>

namespace weft {

namespace local_tensor_of_test {

TEST(LocalPart, ItIsWhatCuttingStepByStepGives) {
  const auto global = at::arange(35).view({7, 5});
  const std::vector<int64_t> shape = {2, 3};
  for (const auto& layout : testing::all_layouts(2, 2, {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)})) {
    for (int64_t i = 0; i < 6; ++i) {
      const auto coordinate = coordinate_at(i, shape);
      EXPECT_TRUE(at::equal(
          local_tensor_of(global, layout, shape, coordinate),
          testing::local_by_definition(global, layout, shape, coordinate)))
          << layout << " at " << c10::IntArrayRef(coordinate);
    }
  }
}

TEST(LocalPart, ItIsAViewUnlessItIsStrided) {
  const auto global = at::arange(8);
  EXPECT_TRUE(local_tensor_of(global, {Replicate()}, {2}, {1}).is_same(global));
  EXPECT_TRUE(local_tensor_of(global, {Shard(0)}, {2}, {1}).is_alias_of(global));
  EXPECT_FALSE(local_tensor_of(global, {StridedShard(0, 2)}, {2}, {1}).is_alias_of(global));
}

} // namespace local_tensor_of_test

} // namespace weft
