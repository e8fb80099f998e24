#include "weft/overlap/chunk_matmul.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace chunk_matmul_test {

/// Integers, so that sums are the same in every order.
at::Tensor numbers(c10::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).remainder(7).view(sizes) - 3;
}

/// Writes to a slice of `base` and checks that nothing else has changed.
void check_slice(const at::Tensor& base, const at::Tensor& target, const at::Tensor& input, bool has_bias, bool adds) {
  const auto other = numbers({input.size(-1), target.size(-1)});
  const auto bias = has_bias ? numbers({target.size(-1)}) : at::Tensor();
  base.fill_(2);
  auto expected = at::matmul(input, other);
  expected = has_bias ? expected + bias : expected;
  expected = adds ? expected + 2 : expected;
  multiply_into(target, input, other, bias, adds);
  EXPECT_TRUE(at::equal(target, expected)) << target.sizes() << target.strides() << input.strides();
  target.fill_(2);
  EXPECT_TRUE(at::equal(base, at::full_like(base, 2)));
}

void check_every_form(const at::Tensor& base, const at::Tensor& target, const at::Tensor& input) {
  for (const bool has_bias : {false, true}) {
    for (const bool adds : {false, true}) {
      check_slice(base, target, input, has_bias, adds);
    }
  }
}

TEST(ChunkMatmul, WritesSlicesOfTensorsInPlace) {
  for (const int64_t rows : {4, 40}) {
    const auto matrix = at::empty({3 * rows, 10});
    check_every_form(matrix, matrix.narrow(0, rows, rows), numbers({rows, 6}));
    check_every_form(matrix, matrix.narrow(1, 2, 5), numbers({3 * rows, 6}));
    const auto batch = at::empty({2, 3 * rows, 5});
    check_every_form(batch, batch.narrow(1, rows, rows), numbers({2, rows, 6}));
    check_every_form(batch, batch.narrow(2, 1, 3), numbers({2, 3 * rows, 6}));
    const auto deep = at::empty({2, 3, rows, 5});
    check_every_form(deep, deep.narrow(1, 1, 2), numbers({2, 2, rows, 6}));
    check_every_form(deep, deep.narrow(2, 1, rows - 1), numbers({2, 3, rows - 1, 6}));
  }
}

TEST(ChunkMatmul, ReadsSlicesOfTensorsInPlace) {
  for (const int64_t rows : {4, 40}) {
    const auto target = at::empty({2, rows, 5});
    check_every_form(target, target, numbers({2, 2 * rows, 6}).narrow(1, rows, rows));
    check_every_form(target, target, numbers({rows, 2, 6}).transpose(0, 1));
    check_every_form(target, target, numbers({2, rows, 12}).narrow(2, 3, 6));
  }
}

TEST(ChunkMatmul, NothingTimesNothingIsNothing) {
  const auto target = at::ones({2, 3});
  multiply_into(target, at::ones({2, 0}), at::ones({0, 3}), {}, /*adds=*/false);
  EXPECT_TRUE(at::equal(target, at::zeros({2, 3})));
  multiply_into(target.narrow(0, 0, 0), at::ones({0, 4}), at::ones({4, 3}), {}, /*adds=*/false);
}

TEST(ChunkMatmul, DimsAreFlattenedIfThatNeedsNoCopy) {
  EXPECT_EQ(as_matrix(at::ones({2, 3, 4}))->sizes(), c10::IntArrayRef({6, 4}));
  EXPECT_EQ(as_matrix(at::ones({1, 8, 4}).narrow(1, 2, 3))->sizes(), c10::IntArrayRef({3, 4}));
  EXPECT_FALSE(as_matrix(at::ones({2, 8, 4}).narrow(1, 2, 3)).has_value());
}

} // namespace chunk_matmul_test

} // namespace weft
