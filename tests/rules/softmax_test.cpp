#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace softmax_test {
using namespace weft::testing;

TEST(Softmax, TheNormalizedDimIsNotSharded) {
  EXPECT_EQ(rule_text("aten::_softmax", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a,b]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::_log_softmax", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b]) unsharded={a}");
}

TEST(Softmax, ANegativeDimIsCountedFromTheEnd) {
  EXPECT_EQ(rule_text("aten::_softmax", {{5, 4, 3}}, {{"dim", -2}}), "([a,b,c])->([a,b,c]) unsharded={b}");
}

TEST(Softmax, GradientAndResultAreShardedAlike) {
  const Arguments last = {{"dim", -1}};
  EXPECT_EQ(mapping_text("aten::_softmax_backward_data", {{5, 4}, {5, 4}}, last), "([a,b],[a,b])->([a,b])");
  EXPECT_EQ(mapping_text("aten::_log_softmax_backward_data", {{5, 4}, {5, 4}}, last), "([a,b],[a,b])->([a,b])");
}

TEST(Softmax, TheBackwardFormIsLinearInTheGradient) {
  EXPECT_EQ(
      rule_text("aten::_log_softmax_backward_data", {{5, 4}, {5, 4}}, {{"dim", 1}}),
      "([a,b],[a,b])->([a,b]) unsharded={b} linear={0}");
}

TEST(Softmax, ASingleNumberHasNoDimToForbidShardsOf) {
  EXPECT_EQ(rule_text("aten::_softmax", {{}}, {{"dim", -1}}), "([])->([])");
}

TEST(Softmax, TheNormalizedDimIsNotShardedInTheBackwardFormEither) {
  const auto rule = RuleCall("aten::_softmax_backward_data", {{5, 4}, {5, 4}}, {{"dim", -1}}).rule();
  EXPECT_TRUE(rule->is_unsharded(1));
  EXPECT_FALSE(rule->is_unsharded(0));
}

TEST(Softmax, MayBeOfAnotherDtype) {
  EXPECT_EQ(
      rule_text("aten::softmax.int", {{5, 4}}, {{"dim", -1}, {"dtype", static_cast<int64_t>(at::kDouble)}}),
      "([a,b])->([a,b]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::log_softmax.int", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b]) unsharded={a}");
}

} // namespace softmax_test

} // namespace weft
