#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace joining_test {
using namespace weft::testing;

TEST(Joining, TheDimAlongWhichTensorsOfDifferentSizesAreJoinedCannotBeSharded) {
  EXPECT_EQ(rule_text("aten::cat", {{5, 4}, {5, 2}}, {{"dim", -1}}), "([a,-],[a,-])->([a,-]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::cat", {{5}, {3}, {2}}), "([-],[-],[-])->([-]) linear*={0,1,2}");
}

TEST(Joining, TensorsOfOneSizeAreJoinedAsTheyAreSharded) {
  EXPECT_EQ(rule_text("aten::cat", {{5, 4}, {5, 4}}, {{"dim", 1}}), "([a,b],[a,b])->([a,(c b)]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::cat", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a,b]) linear*={0}");
}

TEST(Joining, AnEmptyTensorIsAllowedAmongOthersOfAnyNdim) {
  EXPECT_EQ(rule_text("aten::cat", {{0}, {5, 4}}, {{"dim", 1}}), "([-],[a,-])->([a,-]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::cat", {{0}, {0}}), "none");
}

TEST(Joining, AStackHasANewDim) {
  EXPECT_EQ(rule_text("aten::stack", {{5, 4}, {5, 4}}, {{"dim", 1}}), "([a,b],[a,b])->([a,-,b]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::stack", {{}, {}}), "([],[])->([-]) linear*={0,1}");
}

TEST(Joining, TensorsThatDoNotFitHaveNoRule) {
  EXPECT_EQ(rule_text("aten::stack", {{5, 4}, {5, 3}}), "none");
  EXPECT_EQ(rule_text("aten::cat", {{5, 4}, {5}}), "none");
  EXPECT_EQ(rule_text("aten::select_scatter", {{5, 4}, {5, 4}}, {{"dim", 0}, {"index", 1}}), "none");
}

TEST(Joining, WhatIsPutIntoATensorPassesTheDimsItFills) {
  EXPECT_EQ(
      rule_text("aten::slice_scatter", {{5, 4}, {5, 2}}, {{"dim", 1}, {"end", 2}}),
      "([a,b],[a,-])->([a,b]) unsharded={b} linear*={0,1}");
  EXPECT_EQ(
      rule_text("aten::select_scatter", {{5, 4}, {4}}, {{"dim", 0}, {"index", 1}}),
      "([a,b],[b])->([a,b]) unsharded={a} linear*={0,1}");
  EXPECT_EQ(
      rule_text("aten::diagonal_scatter", {{5, 4, 3}, {4, 3}}, {{"dim1", 0}, {"dim2", 2}}),
      "([a,b,c],[b,-])->([a,b,c]) unsharded={a,c} linear*={0,1}");
}

TEST(Joining, ARepeatedDimIsOneOfCopies) {
  EXPECT_EQ(rule_text("aten::repeat", {{5, 4}}, {{"repeats", Ints{2, 1, 3}}}), "([a,b])->([c,a,(d b)]) linear*={0}");
  EXPECT_EQ(rule_text("aten::repeat", {{}}, {{"repeats", Ints{2}}}), "([])->([a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::repeat", {{5}}, {{"repeats", Ints{0}}}), "none");
}

TEST(Joining, DimsWhoseOrderChangesAreNotSharded) {
  EXPECT_EQ(rule_text("aten::flip", {{5, 4}}, {{"dims", Ints{-1}}}), "([a,b])->([a,b]) unsharded={b} linear*={0}");
  EXPECT_EQ(rule_text("aten::flip", {{5, 4}}, {{"dims", Ints{}}}), "([a,b])->([a,b]) linear*={0}");
  EXPECT_EQ(
      rule_text("aten::roll", {{5, 4}}, {{"shifts", Ints{1}}, {"dims", Ints{0}}}),
      "([a,b])->([a,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(rule_text("aten::roll", {{5, 4}}, {{"shifts", Ints{1}}}), "([a,b])->([a,b]) unsharded={a,b} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::rot90", {{5, 4, 3}}, {{"k", -1}, {"dims", Ints{0, 2}}}),
      "([a,b,c])->([c,b,a]) unsharded={a,c} linear*={0}");
  EXPECT_EQ(rule_text("aten::rot90", {{5, 4}}, {{"k", 2}}), "([a,b])->([a,b]) unsharded={a,b} linear*={0}");
}

TEST(Joining, ATriangleNeedsItsMatrixUnsharded) {
  EXPECT_EQ(rule_text("aten::tril", {{5, 4, 3}}), "([a,b,c])->([a,b,c]) unsharded={b,c} linear*={0}");
  EXPECT_EQ(rule_text("aten::triu", {{3}}), "none");
}

TEST(Joining, APaddedDimCannotBeSharded) {
  EXPECT_EQ(
      rule_text("aten::constant_pad_nd", {{5, 4}}, {{"pad", Ints{1, 0}}}), "([a,b])->([a,-]) unsharded={b} linear={0}");
  EXPECT_EQ(
      rule_text("aten::constant_pad_nd", {{5, 4}}, {{"pad", Ints{0, 0, -1, 2}}}),
      "([a,b])->([-,b]) unsharded={a} linear={0}");
  EXPECT_EQ(
      rule_text("aten::constant_pad_nd", {{5, 4}}, {{"pad", Ints{1, 0}}, {"value", 2}}),
      "([a,b])->([a,-]) unsharded={b}");
}

TEST(Joining, ADiagonalIsPutIntoTwoNewDims) {
  EXPECT_EQ(rule_text("aten::diag_embed", {{5, 4}}), "([a,b])->([a,-,-]) unsharded={b} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::diag_embed", {{5, 4}}, {{"dim1", 0}, {"dim2", 2}}),
      "([a,b])->([-,a,-]) unsharded={b} linear*={0}");
}

TEST(Joining, StacksOfManyNamesJoinAlongADim) {
  EXPECT_EQ(rule_text("aten::vstack", {{3, 4}, {2, 4}}), "([-,b],[-,b])->([-,b]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::hstack", {{3, 4}, {3, 4}}), "([a,b],[a,b])->([a,(c b)]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::hstack", {{4}, {4}}), "([a],[a])->([(b a)]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::dstack", {{3, 4, 2}, {3, 4, 2}}), "([a,b,c],[a,b,c])->([a,b,(d c)]) linear*={0,1}");
  EXPECT_EQ(rule_text("aten::vstack", {{4}, {4}}), "none");
}

TEST(Joining, RepeatsByNumberFromTheBack) {
  EXPECT_EQ(rule_text("aten::tile", {{5, 4}}, {{"dims", Ints{3}}}), "([a,b])->([a,(c b)]) linear*={0}");
}

TEST(Joining, CopiesThatFollowEachOtherAreTheFasterFactor) {
  EXPECT_EQ(
      rule_text("aten::repeat_interleave.self_int", {{5, 4}}, {{"repeats", 3}, {"dim", 0}}),
      "([a,b])->([(a c),b]) linear*={0}");
  EXPECT_EQ(
      rule_text("aten::repeat_interleave.self_int", {{5, 4}}, {{"repeats", 3}, {"dim", -1}, {"output_size", 12}}),
      "([a,b])->([a,(b c)]) linear*={0} output_size=[(b c)]");
  EXPECT_EQ(
      rule_text("aten::repeat_interleave.self_int", {{5, 4}}, {{"repeats", 2}}), "([a,b])->([(a b c)]) linear*={0}");
  EXPECT_EQ(rule_text("aten::repeat_interleave.self_Tensor", {{5, 4}, {5}}, {{"dim", 0}}), "none");
  EXPECT_EQ(rule_text("aten::repeat_interleave.Tensor", {{5}}), "none");
}

TEST(Joining, PaddingThatIsMadeOfTheTensorIsCopied) {
  const auto padded = [](const char* mode) {
    return rule_text("aten::pad", {{5, 4, 3}}, {{"pad", Ints{1, 1}}, {"mode", mode}});
  };
  EXPECT_EQ(padded("constant"), "([a,b,c])->([a,b,-]) unsharded={c} linear={0}");
  EXPECT_EQ(padded("reflect"), "([a,b,c])->([a,b,-]) unsharded={c} filled={a,b,c} linear*={0}");
}

} // namespace joining_test

} // namespace weft
