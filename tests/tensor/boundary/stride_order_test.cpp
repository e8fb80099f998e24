#include "weft/tensor/boundary/stride_order.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace stride_order_test {

TEST(StrideOrder, DimsAreOrderedByTheirStrides) {
  EXPECT_EQ(dims_by_stride({2, 3, 4}, {1, 8, 2}), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(dims_by_stride({}, {}), std::vector<int64_t>());
  EXPECT_EQ(dense_strides({2, 3, 4}, {1, 2, 0}), (c10::DimVector{1, 8, 2}));
  EXPECT_EQ(dense_strides({2, 0, 4}, {0, 1, 2}), (c10::DimVector{4, 4, 1}));
}

TEST(StrideOrder, StridesThatNoAddressDependsOnDoNotCount) {
  EXPECT_TRUE(same_strides({2, 1, 4}, {4, 7, 1}, {4, 4, 1}));
  EXPECT_TRUE(same_strides({2, 0}, {5, 6}, {7, 8}));
  EXPECT_FALSE(same_strides({2, 3}, {3, 1}, {1, 2}));
}

TEST(StrideOrder, ATensorOfOtherSizesHasTheSameOrder) {
  const auto image = at::empty({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(strides_as_in(image, {4, 3, 4, 5}), (c10::DimVector{60, 1, 15, 3}));
  EXPECT_EQ(strides_as_in(at::empty({4, 2}).slice(0, 0, 4, 2), {4, 2}), (c10::DimVector{2, 1}));
  EXPECT_EQ(strides_as_in(at::empty({1, 2}).expand({4, 2}), {4, 2}), (c10::DimVector{2, 1}));
  EXPECT_EQ(strides_as_in(at::empty({}), {}), c10::DimVector());
}

TEST(StrideOrder, ALocalTensorIsCopiedWhereItsOrderIsAnother) {
  const auto spec = TensorSpec::parse("f32[4,3|1,4] @ mesh(a=2) {S(0)}");
  EXPECT_EQ(order_in_memory(*spec), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(order_in_memory(*TensorSpec::parse("f32[4,3|1,8] @ mesh(a=2) {S(0)}")), (std::vector<int64_t>{0, 1}));
  const auto local = at::arange(6.0).view({3, 2}).t();
  EXPECT_TRUE(in_stride_order(local, *spec).is_alias_of(local));
  const auto copy = in_stride_order(local.contiguous(), *spec);
  EXPECT_EQ(copy.strides(), local.strides());
  EXPECT_TRUE(at::equal(copy, local));
}

} // namespace stride_order_test

} // namespace weft
