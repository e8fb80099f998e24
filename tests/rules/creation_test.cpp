#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace creation_test {
using namespace weft::testing;

TEST(Creation, ATensorLikeAnotherHasItsLayout) {
  EXPECT_EQ(rule_text("aten::zeros_like", {{5, 4}}), "([a,b])->([a,b]) unread={0}");
  EXPECT_EQ(rule_text("aten::full_like", {{}}, {{"fill_value", 2}}), "([])->([]) unread={0}");
}

TEST(Creation, ANewTensorOfTheSameShapeHasTheLayoutOfTheOther) {
  EXPECT_EQ(rule_text("aten::new_zeros", {{5, 4}}, {{"size", Ints{5, 4}}}), "([a,b])->([a,b]) unread={0} size=[a,b]");
}

TEST(Creation, ATensorWithoutValuesIsPartialWhereTheOtherIs) {
  EXPECT_EQ(rule_text("aten::empty_like", {{5, 4}}), "([a,b])->([a,b]) linear*={0}");
  EXPECT_EQ(rule_text("aten::new_empty", {{5, 4}}, {{"size", Ints{5, 4}}}), "([a,b])->([a,b]) linear*={0} size=[a,b]");
  EXPECT_EQ(
      rule_text("aten::empty_like", {{5, 4}}, {{"dtype", static_cast<int64_t>(at::kLong)}}),
      "([a,b])->([a,b]) unread={0}");
}

TEST(Creation, ANewTensorOfAnotherShapeCannotBeSharded) {
  EXPECT_EQ(rule_text("aten::new_empty", {{5, 4}}, {{"size", Ints{4, 5}}}), "([-,-])->([-,-]) any={0} size=[-,-]");
  EXPECT_EQ(
      rule_text("aten::new_full", {{5, 4}}, {{"size", Ints{}}, {"fill_value", 1}}), "([-,-])->([]) any={0} size=[]");
}

TEST(Creation, ANewTensorWithStridesIsReplicatedAndReadsNothing) {
  EXPECT_EQ(
      rule_text("aten::new_empty_strided", {{5, 4}}, {{"size", Ints{12}}, {"stride", Ints{1}}}),
      "([-,-])->([-]) any={0}");
}

} // namespace creation_test

} // namespace weft
