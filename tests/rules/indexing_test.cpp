#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace indexing_test {
using namespace weft::testing;

TEST(Indexing, TheIndexReplacesTheIndexedDim) {
  EXPECT_EQ(
      rule_text("aten::index_select", {{5, 4}, {3}}, {{"dim", 1}}), "([a,b],[c])->([a,c]) unsharded={b} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::index_select", {{5, 4}, {}}, {{"dim", 0}}), "([a,b],[])->([-,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::index_select", {{5, 4}, {3}}, {{"dim", 0}}),
      "([a,b],[c])->([c,b]) sum={a} filled={a} linear*={0} lookup={1 in a}");
  EXPECT_EQ(rule_text("aten::index_select", {{}, {1}}, {{"dim", 0}}), "none");
}

TEST(Indexing, GatherPassesTheDimsThatAreEquallyLong) {
  EXPECT_EQ(rule_text("aten::gather", {{5, 4}, {5, 9}}, {{"dim", 1}}), "([b,-],[b,a])->([b,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::gather", {{5, 4}, {3, 9}}, {{"dim", 1}}), "([-,-],[-,a])->([-,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::gather", {{}, {2}}, {{"dim", 0}}), "none");
}

TEST(Indexing, GatherOfNoMoreThanThereIsLooksUpWhatARankHolds) {
  EXPECT_EQ(
      rule_text("aten::gather", {{5, 4}, {5, 3}}, {{"dim", 1}}),
      "([b,c],[b,a])->([b,a]) sum={c} filled={c} linear*={0} lookup={1 in c}");
  EXPECT_EQ(
      rule_text("aten::gather", {{5, 4}, {2, 1}}, {{"dim", 1}}),
      "([-,b],[-,a])->([-,a]) sum={b} filled={b} linear*={0} lookup={1 in b}");
}

TEST(Indexing, WhatIsScatteredMayOverwriteWhatCameEarlier) {
  EXPECT_EQ(
      rule_text("aten::scatter.src", {{5, 4}, {5, 3}, {5, 3}}, {{"dim", 1}}),
      "([b,-],[b,a],[b,a])->([b,-]) unsharded={a}");
  EXPECT_EQ(
      rule_text("aten::scatter.value", {{5, 4}, {2, 4}}, {{"dim", 1}, {"value", 1}}),
      "([-,-],[-,a])->([-,-]) unsharded={a}");
  EXPECT_EQ(
      rule_text("aten::scatter_reduce.two", {{5, 4}, {3, 4}, {5, 4}}, {{"dim", 0}, {"reduce", "amax"}}),
      "([-,b],[a,b],[-,b])->([-,b]) unsharded={a}");
}

TEST(Indexing, ScatteringByShardsOfTheIndexIsAdded) {
  EXPECT_EQ(
      rule_text("aten::scatter_add", {{5, 4}, {5, 3}, {5, 3}}, {{"dim", 1}}),
      "([b,-],[b,a],[b,a])->([b,-]) sum={a} added={0} linear={0,2}");
  EXPECT_EQ(
      rule_text("aten::scatter_add", {{5, 4}, {5, 3}, {5, 9}}, {{"dim", 1}}),
      "([b,-],[b,a],[b,-])->([b,-]) unsharded={a} linear={0,2}");
}

TEST(Indexing, TheSourceMeetsTheIndexAlongItsDim) {
  EXPECT_EQ(
      rule_text("aten::index_copy", {{5, 4}, {3}, {5, 3}}, {{"dim", 1}}), "([a,b],[c],[a,c])->([a,b]) unsharded={b,c}");
  EXPECT_EQ(
      rule_text("aten::index_fill.int_Tensor", {{5, 4}, {3}, {}}, {{"dim", 0}}),
      "([a,b],[c],[])->([a,b]) unsharded={a,c}");
  EXPECT_EQ(
      rule_text("aten::index_fill.int_Scalar", {{5, 4}, {3}}, {{"dim", 0}, {"value", 1}}),
      "([a,b],[c])->([a,b]) unsharded={a,c}");
  EXPECT_EQ(
      rule_text("aten::index_add", {{5, 4}, {3}, {5, 3}}, {{"dim", -1}}),
      "([a,b],[c],[a,c])->([a,b]) sum={c} unsharded={b} added={0} linear={0,2}");
}

TEST(Indexing, TakeLooksUpEveryElementByItself) {
  EXPECT_EQ(rule_text("aten::take", {{5, 4}, {3, 2}}), "([-,-],[a,b])->([a,b]) linear*={0}");
}

TEST(Indexing, TheDimsOfIndicesComeWhereThoseTheyIndexWere) {
  EXPECT_EQ(rule_text("aten::index.Tensor", {{5, 4, 3}, {2}}), "([b,c,d],[a])->([a,c,d]) unsharded={b} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::index.Tensor", {{5, 4, 3}, kAbsent, {7, 1}, {6}}),
      "([c,d,e],[a,-],[b])->([c,a,b]) unsharded={d,e} linear*={0}");
  EXPECT_EQ(rule_text("aten::index.Tensor", {{5, 4}, kAbsent, {}}), "([a,b],[])->([a]) unsharded={b} linear*={0}");
}

TEST(Indexing, TheDimsOfIndicesThatAreApartComeFirst) {
  EXPECT_EQ(
      rule_text("aten::index.Tensor", {{5, 4, 3}, {2}, kAbsent, {2}}),
      "([b,c,d],[a],[a])->([a,c]) unsharded={b,d} linear*={0}");
}

TEST(Indexing, WhatIsPutMayReplaceWhatCameEarlier) {
  EXPECT_EQ(rule_text("aten::index_put", {{5, 4}, {3}, {3, 1}}), "([b,c],[a],[a,-])->([b,c]) unsharded={a,b}");
}

TEST(Indexing, WhatIsPutAtOnePositionMayBePartial) {
  EXPECT_EQ(rule_text("aten::index_put", {{5, 4}, {}, {4}}), "([a,b],[],[b])->([a,b]) unsharded={a} linear*={0,2}");
  EXPECT_EQ(
      rule_text("aten::index_put", {{5, 4}, {1}, {1, 4}}), "([b,c],[a],[a,c])->([b,c]) unsharded={a,b} linear*={0,2}");
}

TEST(Indexing, PuttingByShardsOfTheIndexIsAdded) {
  EXPECT_EQ(
      rule_text("aten::index_put", {{5, 4}, kAbsent, {3}, {5, 3}}, {{"accumulate", true}}),
      "([b,c],[a],[b,a])->([b,c]) sum={a} unsharded={c} added={0} linear={0,2}");
}

TEST(Indexing, NumbersBecomeRowsOfALengthThatIsSaid) {
  EXPECT_EQ(rule_text("aten::one_hot", {{5, 3}}, {{"num_classes", 4}}), "([a,b])->([a,b,-])");
  EXPECT_EQ(rule_text("aten::one_hot", {{5, 3}}), "none");
}

TEST(Indexing, TakingAlongADimIsGathering) {
  EXPECT_EQ(rule_text("aten::take_along_dim", {{5, 4}, {5, 3}}, {{"dim", 1}}), "([b,-],[b,a])->([b,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::take_along_dim", {{5, 4}, {3}}), "none");
}

} // namespace indexing_test

} // namespace weft
