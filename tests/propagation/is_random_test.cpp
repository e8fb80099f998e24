#include "weft/propagation/is_random.h"

#include <gtest/gtest.h>

namespace weft {

namespace is_random_test {
TEST(IsRandom, KnowsRandomOperators) {
  const auto find = [](const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  EXPECT_TRUE(is_random(find("aten::native_dropout")));
  EXPECT_TRUE(is_random(find("aten::dropout")));
  EXPECT_TRUE(is_random(find("aten::scaled_dot_product_attention")));
  EXPECT_FALSE(is_random(find("aten::relu")));
}

} // namespace is_random_test

} // namespace weft
