#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace weft::testing;

TEST(Pointwise, SumsAreAddedTermByTerm) {
  EXPECT_EQ(rule_text("aten::add.Tensor", {{5, 4}, {4}}), "([a,b],[b])->([a,b]) linear={0,1}");
  EXPECT_EQ(rule_text("aten::sub.Tensor", {{5, 4}, {5, 4}}), "([a,b],[a,b])->([a,b]) linear={0,1}");
  EXPECT_EQ(rule_text("aten::add_.Tensor", {{5}, {5}}), "([a],[a])->([a]) linear={0,1}");
}

TEST(Pointwise, AProductIsLinearInEachFactor) {
  EXPECT_EQ(rule_text("aten::mul.Tensor", {{5, 4}, {5, 1}}), "([a,b],[a,-])->([a,b]) linear={0}{1}");
}

TEST(Pointwise, AQuotientIsLinearInTheDividendAlone) {
  EXPECT_EQ(rule_text("aten::div.Tensor", {{5}, {5}}), "([a],[a])->([a]) linear={0}");
  EXPECT_EQ(rule_text("aten::neg", {{5}}), "([a])->([a]) linear={0}");
}

TEST(Pointwise, ACopyIsLinearInAnyOperation) {
  EXPECT_EQ(rule_text("aten::clone", {{5, 4}}), "([a,b])->([a,b]) linear*={0}");
  EXPECT_EQ(rule_text("aten::detach", {{}}), "([])->([]) linear*={0}");
}

TEST(Pointwise, AFunctionOfValuesIsNotLinear) {
  EXPECT_EQ(rule_text("aten::relu", {{5, 4}}), "([a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::gelu", {{5}}), "([a])->([a])");
  EXPECT_EQ(rule_text("aten::pow.Tensor_Scalar", {{5}}, {{"exponent", 2}}), "([a])->([a])");
  EXPECT_EQ(rule_text("aten::maximum", {{5}, {5}}), "([a],[a])->([a])");
  EXPECT_EQ(rule_text("aten::eq.Tensor", {{5, 1}, {4}}), "([a,-],[b])->([a,b])");
}

TEST(Pointwise, ThreeOperandsBroadcast) {
  EXPECT_EQ(rule_text("aten::where.self", {{5, 1}, {4}, {}}), "([a,-],[b],[])->([a,b])");
  EXPECT_EQ(rule_text("aten::addcmul", {{5, 4}, {5, 4}, {4}}), "([a,b],[a,b],[b])->([a,b])");
}

TEST(Pointwise, ABackwardFormIsLinearInTheGradient) {
  EXPECT_EQ(rule_text("aten::gelu_backward", {{5}, {5}}), "([a],[a])->([a]) linear={0}");
  EXPECT_EQ(
      rule_text("aten::threshold_backward", {{5, 4}, {5, 4}}, {{"threshold", 0}}), "([a,b],[a,b])->([a,b]) linear={0}");
}

} // namespace
} // namespace weft
