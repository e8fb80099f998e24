#include "weft/fully_sharded/first_error.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace first_error_test {

TEST(FirstError, AllStepsRunAndTheFirstErrorIsRaised) {
  FirstError errors;
  int runs = 0;
  errors.rethrow();
  errors.run([&] { ++runs; });
  errors.run([] { throw std::runtime_error("first"); });
  errors.run([] { throw std::runtime_error("second"); });
  errors.run([&] { ++runs; });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(testing::error_text<std::runtime_error>([&] { errors.rethrow(); }), "first");
}

} // namespace first_error_test
} // namespace weft
