#include "weft/overlap/matrix_gradient.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace matrix_gradient_test {

TEST(MatrixGradient, TheRowsOfAllBatchesAreOneProduct) {
  const auto left = at::arange(24, at::kFloat).view({2, 3, 4});
  const auto gradient = at::arange(30, at::kFloat).view({2, 3, 5});
  const auto expected = at::einsum("bij,bik->jk", {left, gradient});
  EXPECT_TRUE(at::equal(matrix_gradient(left, gradient, at::zeros({4, 5})), expected));
  EXPECT_TRUE(
      at::equal(matrix_gradient(left[0][0], gradient[0][0], at::zeros({4, 5})), at::outer(left[0][0], gradient[0][0])));
}

TEST(MatrixGradient, ItsStridesAreInTheOrderOfTheMatrixs) {
  const auto left = at::ones({3, 4});
  const auto gradient = at::ones({3, 5});
  EXPECT_EQ(matrix_gradient(left, gradient, at::zeros({4, 5})).strides(), c10::IntArrayRef({5, 1}));
  EXPECT_EQ(matrix_gradient(left, gradient, at::zeros({5, 4}).t()).strides(), c10::IntArrayRef({1, 4}));
}

} // namespace matrix_gradient_test

} // namespace weft
