#include "weft/comm/scratch.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

namespace weft {

namespace scratch_test {
TEST(Scratch, GivesContiguousTensorsOfAnyDtype) {
  Scratch scratch;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kBool, at::kComplexFloat, at::kLong}) {
    const auto tensor = scratch.take({3, 5}, at::TensorOptions(dtype));
    EXPECT_EQ(tensor.sizes(), c10::IntArrayRef({3, 5}));
    EXPECT_EQ(tensor.scalar_type(), dtype);
    EXPECT_TRUE(tensor.is_contiguous());
  }
}

TEST(Scratch, UsesABufferAgainOnceItsTensorIsGone) {
  Scratch scratch;
  const void* first = scratch.take({1000}, at::kFloat).data_ptr();
  EXPECT_EQ(scratch.take({900}, at::kFloat).data_ptr(), first);
  EXPECT_EQ(scratch.bytes(), 4000);
}

TEST(Scratch, NeverGivesTheSameBufferTwiceAtATime) {
  Scratch scratch;
  const auto a = scratch.take({1000}, at::kFloat);
  const auto b = scratch.take({1000}, at::kFloat);
  const auto view_of_c = scratch.take({1000}, at::kFloat).narrow(0, 10, 20);
  const auto d = scratch.take({1000}, at::kFloat);
  EXPECT_FALSE(a.is_alias_of(b));
  EXPECT_FALSE(d.is_alias_of(a) || d.is_alias_of(b) || d.is_alias_of(view_of_c));
}

TEST(Scratch, KeepsABoundedAmount) {
  Scratch scratch;
  std::vector<at::Tensor> taken;
  for (int i = 1; i <= 20; ++i) {
    taken.push_back(scratch.take({i * 100}, at::kByte));
  }
  EXPECT_LE(scratch.bytes(), 8 * 2000);
  const auto before = scratch.bytes();
  EXPECT_EQ(scratch.take({65 << 20}, at::kByte).numel(), 65 << 20);
  EXPECT_EQ(scratch.take({0, 4}, at::kFloat).numel(), 0);
  EXPECT_EQ(scratch.bytes(), before);
}

} // namespace scratch_test

} // namespace weft
