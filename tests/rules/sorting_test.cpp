#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace sorting_test {
using namespace weft::testing;

TEST(Sorting, TheSortedDimIsNotSharded) {
  EXPECT_EQ(rule_text("aten::sort", {{5, 4}}), "([a,b])->([a,b],[a,b]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::sort.stable", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b],[a,b]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::sort", {{}}), "([])->([],[])");
}

TEST(Sorting, TheLargestAreAsManyAsAskedFor) {
  EXPECT_EQ(rule_text("aten::topk", {{5, 4}}, {{"k", 2}}), "([a,b])->([a,-],[a,-]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::topk", {{}}, {{"k", 1}}), "([])->([],[])");
}

TEST(Sorting, OneOfADimComesWithItsIndex) {
  EXPECT_EQ(rule_text("aten::kthvalue", {{5, 4}}, {{"k", 2}}), "([a,b])->([a],[a]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::mode", {{5, 4}}, {{"dim", 0}, {"keepdim", true}}), "([a,b])->([-,b],[-,b]) unsharded={a}");
}

TEST(Sorting, ValuesAreLookedForOneByOne) {
  EXPECT_EQ(rule_text("aten::bucketize.Tensor", {{5, 4}, {3}}), "([a,b],[-])->([a,b])");
  EXPECT_EQ(rule_text("aten::isin.Tensor_Tensor", {{5, 4}, {3, 2}}), "([a,b],[-,-])->([a,b])");
  EXPECT_EQ(rule_text("aten::isin.Tensor_Scalar", {{5, 4}}, {{"test_element", 1}}), "([a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::searchsorted.Tensor", {{3}, {5, 4}}), "([-],[a,b])->([a,b])");
}

TEST(Sorting, ASingleNumberIsNotSearchedForInShards) {
  EXPECT_EQ(rule_text("aten::bucketize.Scalar", {{3}}, {{"self", 1}}), "none");
  EXPECT_EQ(rule_text("aten::isin.Scalar_Tensor", {{3}}, {{"element", 1}}), "none");
  EXPECT_EQ(rule_text("aten::searchsorted.Scalar", {{3}}, {{"self", 1}}), "none");
}

TEST(Sorting, ManySequencesHaveTheirDimsInCommonWithTheValues) {
  EXPECT_EQ(rule_text("aten::searchsorted.Tensor", {{5, 3}, {5, 4}}), "([a,-],[a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::searchsorted.Tensor", {{5, 3}, {5, 4}, {5, 3}}), "([a,-],[a,b],[a,-])->([a,b])");
}

} // namespace sorting_test

} // namespace weft
