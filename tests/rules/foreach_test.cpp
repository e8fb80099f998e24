#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace foreach_test {
using namespace weft::testing;

TEST(Foreach, AnElementIsTakenAsTheOperatorOfThatNameDoes) {
  EXPECT_EQ(
      rule_text("aten::_foreach_add.List", {{5, 4}, {5, 4}}), "([a,b],[a,b])->([a,b]) linear={0,1} increasing={0}");
  EXPECT_EQ(
      rule_text("aten::_foreach_add_.Scalar", {{5}}, {{"scalar", 1}}), "([a])->([a]) linear(avg)={0} increasing={0}");
  EXPECT_EQ(rule_text("aten::_foreach_mul.Tensor", {{5}, {}}), "([a],[])->([a]) linear={0}{1}");
  EXPECT_EQ(rule_text("aten::_foreach_norm.Scalar", {{5, 4}}), "([a,b])->([]) unsharded={a,b}");
  EXPECT_EQ(rule_text("aten::_foreach_copy_", {{5}, {5}}), "([a],[a])->([a]) linear*={0,1} unread={0}");
}

TEST(Foreach, TheRuleHoldsForEachElement) {
  EXPECT_TRUE(RuleRegistry::instance().find("aten::_foreach_add")->per_element);
  EXPECT_TRUE(RuleRegistry::instance().find("aten::_fused_adamw_")->per_element);
  EXPECT_FALSE(RuleRegistry::instance().find("aten::add")->per_element);
}

TEST(Foreach, NumbersOfTheElementsAreNotBroadcastAgainstThem) {
  EXPECT_EQ(
      rule_text("aten::_foreach_addcmul.Tensor", {{5, 4}, {5, 4}, {5, 4}, {4}}),
      "([a,b],[a,b],[a,b],[-])->([a,b]) linear={0,1}{0,2}");
  EXPECT_EQ(rule_text("aten::_foreach_addcdiv.Scalar", {{5}, {5}, {5}}), "([a],[a],[a])->([a]) linear={0,1}");
}

TEST(Foreach, PowersAreSummedOverShards) {
  EXPECT_EQ(rule_text("aten::_foreach_powsum.Scalar", {{5, 4}}), "([a,b])->([]) sum={a,b}");
}

TEST(Foreach, AnOptimizerTakesAllTensorsOfAParameterAlike) {
  EXPECT_EQ(mapping_text("aten::_fused_sgd", {{5, 4}, {5, 4}, {5, 4}}), "([a,b],[a,b],[a,b])->([a,b])");
}

} // namespace foreach_test

} // namespace weft
