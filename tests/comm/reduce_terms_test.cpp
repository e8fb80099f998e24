#include "weft/comm/reduce_terms.h"

#include "tests/support/sample_tensors.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace reduce_terms_test {

using testing::reduced;
using testing::sample;

std::vector<at::Tensor> samples(int64_t count, at::ScalarType dtype) {
  std::vector<at::Tensor> terms;
  for (int64_t i = 0; i < count; ++i) {
    terms.push_back(sample(i, {3, 5}, dtype));
  }
  return terms;
}

at::Tensor scalars_reduced(std::vector<double> values, at::ScalarType dtype, ReduceOp op) {
  std::vector<at::Tensor> terms;
  for (const auto value : values) {
    terms.push_back(at::full({1}, value, dtype));
  }
  const auto output = at::empty({1}, dtype);
  reduce_terms(output, terms, op);
  return output;
}

TEST(ReduceTerms, ComputesEveryOpForOneToFiveTerms) {
  for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kByte, at::kBool}) {
      if (op == ReduceOp::Avg && !at::isFloatingType(dtype)) {
        continue;
      }
      for (int64_t count = 1; count <= 5; ++count) {
        const auto terms = samples(count, dtype);
        const auto output = at::empty({3, 5}, dtype);
        reduce_terms(output, terms, op);
        EXPECT_TRUE(at::equal(output, reduced(terms, op))) << to_string(op) << " of " << count << " " << dtype;
      }
    }
  }
}

TEST(ReduceTerms, TheOutputMayBeEitherOfTheFirstTwoTerms) {
  for (const int64_t position : {0, 1}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      auto terms = samples(4, dtype);
      const auto expected = reduced(terms, ReduceOp::Sum);
      const auto output = terms[position];
      reduce_terms(output, terms, ReduceOp::Sum);
      EXPECT_TRUE(at::equal(output, expected)) << position << " " << dtype;
    }
  }
}

TEST(ReduceTerms, AddsInTheOrderGiven) {
  EXPECT_EQ(scalars_reduced({1e8, 1, -1e8}, at::kFloat, ReduceOp::Sum).item<float>(), 0);
  EXPECT_EQ(scalars_reduced({1e8, -1e8, 1}, at::kFloat, ReduceOp::Sum).item<float>(), 1);
}

TEST(ReduceTerms, SixteenBitFloatsAreAddedUpInThirtyTwo) {
  // In bf16, 256 + 1 is 256 again, however often it is added.
  EXPECT_EQ(scalars_reduced({256, 1, 1}, at::kBFloat16, ReduceOp::Sum).item<float>(), 258);
  EXPECT_EQ(scalars_reduced({2048, 1, 1}, at::kHalf, ReduceOp::Sum).item<float>(), 2050);
  // The sum is too large for f16, the average is not.
  EXPECT_EQ(scalars_reduced({60000, 60000, 60000}, at::kHalf, ReduceOp::Avg).item<float>(), 60000);
}

TEST(ReduceTerms, AnAverageOfTwoSixteenBitFloatsDoesNotOverflow) {
  EXPECT_EQ(scalars_reduced({60000, 60000}, at::kHalf, ReduceOp::Avg).item<float>(), 60000);
}

TEST(ReduceTerms, MaxAndMinPassNanOn) {
  for (const auto op : {ReduceOp::Max, ReduceOp::Min}) {
    EXPECT_TRUE(std::isnan(scalars_reduced({1, NAN, 2}, at::kFloat, op).item<float>()));
  }
}

} // namespace reduce_terms_test

} // namespace weft
