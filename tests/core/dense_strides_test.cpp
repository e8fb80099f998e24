#include "weft/core/dense_strides.h"

#include <gtest/gtest.h>

namespace weft {

namespace dense_strides_test {

TEST(DenseStrides, AreThoseOfAContiguousTensor) {
  EXPECT_EQ(dense_strides({}), c10::DimVector());
  EXPECT_EQ(dense_strides({4, 3, 2}), c10::DimVector({6, 2, 1}));
  EXPECT_EQ(dense_strides({4, 0, 2}), c10::DimVector({2, 2, 1}));
}

TEST(DenseStrides, OfATensorWithoutElementsMayBeLarge) {
  constexpr auto kLarge = int64_t{1} << 62;
  EXPECT_EQ(dense_strides({0, kLarge, kLarge}).size(), 3u);
}

} // namespace dense_strides_test

} // namespace weft
