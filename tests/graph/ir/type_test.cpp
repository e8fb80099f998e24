#include "weft/graph/ir/type.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace type_test {
TEST(Type, StridesOfContiguousTensorsCountFromTheLastDim) {
  EXPECT_EQ(contiguous_strides({}), Sizes());
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Sizes{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Sizes{4, 4, 1}));
  const auto s = Size::symbol("s");
  EXPECT_EQ(contiguous_strides({2, s, 4}), (Sizes{Size(4) * s, 4, 1}));
}

TEST(Type, ContiguousTypesAreEqualIfAllIs) {
  const auto type = contiguous_type(at::kHalf, {2, 3});
  EXPECT_EQ(type.dim(), 2);
  EXPECT_EQ(type.device, c10::Device(c10::kCPU));
  EXPECT_EQ(type, contiguous_type(at::kHalf, {2, 3}));
  EXPECT_NE(type, contiguous_type(at::kFloat, {2, 3}));
  EXPECT_NE(type, contiguous_type(at::kHalf, {2, 3}, c10::kCUDA));
  EXPECT_EQ((NumberType{NumberKind::Int, "s"}), (NumberType{NumberKind::Int, "s"}));
}

} // namespace type_test

} // namespace weft::graph
