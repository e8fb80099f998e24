#include "weft/graph/capture/traced_type.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace traced_type_test {
TEST(TracedType, IsThatOfTheTensorAndBack) {
  const auto x = at::ones({2, 3}, at::kHalf).t().requires_grad_();
  const auto type = traced_type(x);
  EXPECT_EQ(type.dtype, at::kHalf);
  EXPECT_EQ(type.sizes, (Sizes{3, 2}));
  EXPECT_EQ(type.strides, (Sizes{1, 3}));
  EXPECT_TRUE(type.requires_grad);
  EXPECT_TRUE(has_fixed_sizes(type));
  const auto meta = meta_tensor(type);
  EXPECT_TRUE(meta.is_meta());
  EXPECT_EQ(meta.strides(), x.strides());
  EXPECT_EQ(meta.scalar_type(), at::kHalf);
}

TEST(TracedType, OfSymbolsIsNotFixed) {
  TensorType type = traced_type(at::ones({2}));
  type.sizes[0] = Size::symbol("s0");
  EXPECT_FALSE(has_fixed_sizes(type));
}

TEST(TracedType, NumbersHaveTypesToo) {
  EXPECT_EQ(traced_number(c10::IValue(2))->kind, NumberKind::Int);
  EXPECT_EQ(traced_number(c10::IValue(2.5))->kind, NumberKind::Float);
  EXPECT_EQ(traced_number(c10::IValue(true))->kind, NumberKind::Bool);
  EXPECT_FALSE(traced_number(c10::IValue("two")).has_value());
}

} // namespace traced_type_test

} // namespace weft::graph
