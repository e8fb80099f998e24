#include "weft/propagation/linear_numbers.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <limits>

namespace weft {

namespace linear_numbers_test {

constexpr auto kInfinity = std::numeric_limits<double>::infinity();

const c10::FunctionSchema& schema_of(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema();
}

TEST(LinearNumbers, FiniteNumbersKeepAnOperatorLinear) {
  const auto& mul = schema_of("aten::mul", "Scalar");
  for (const at::Scalar& number :
       {at::Scalar(2.5), at::Scalar(0), at::Scalar(true), at::Scalar(c10::complex<double>(1, 2))}) {
    EXPECT_TRUE(keeps_linear(mul, number));
  }
  for (const at::Scalar& number :
       {at::Scalar(kInfinity), at::Scalar(-kInfinity), at::Scalar(std::numeric_limits<double>::quiet_NaN()),
        at::Scalar(c10::complex<double>(1, kInfinity))}) {
    EXPECT_FALSE(keeps_linear(mul, number));
  }
}

TEST(LinearNumbers, ADivisorMustNotBeZero) {
  const auto& div = schema_of("aten::div", "Scalar");
  EXPECT_TRUE(keeps_linear(div, 2));
  EXPECT_FALSE(keeps_linear(div, 0));
  EXPECT_FALSE(keeps_linear(div, 0.0));
}

TEST(LinearNumbers, NumbersInListsCountToo) {
  const auto& mul = schema_of("aten::_foreach_mul", "ScalarList");
  const auto list = [](double number) { return c10::IValue(c10::List<double>({1.0, number})); };
  EXPECT_TRUE(keep_linear(mul, {c10::IValue(), list(2), c10::IValue("text")}));
  EXPECT_FALSE(keep_linear(mul, {c10::IValue(), list(kInfinity)}));
}

} // namespace linear_numbers_test

} // namespace weft
