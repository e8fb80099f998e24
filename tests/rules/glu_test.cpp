#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace glu_test {
using namespace weft::testing;

TEST(Glu, TheHalvedDimIsNotSharded) {
  EXPECT_EQ(rule_text("aten::glu", {{5, 6}}, {{"dim", -1}}), "([a,-])->([a,-])");
  EXPECT_EQ(rule_text("aten::glu", {{4, 3}}, {{"dim", 0}}), "([-,b])->([-,b])");
}

TEST(Glu, BackwardIsLinearInTheGradient) {
  EXPECT_EQ(rule_text("aten::glu_backward", {{5, 3}, {5, 6}}, {{"dim", 1}}), "([a,-],[a,-])->([a,-]) linear={0}");
}

} // namespace glu_test

} // namespace weft
