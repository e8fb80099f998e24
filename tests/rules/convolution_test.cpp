#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace convolution_test {
using namespace weft::testing;

Arguments backward(int64_t groups, bool input, bool weight, bool bias) {
  return {{"groups", groups}, {"output_mask", c10::List<bool>({input, weight, bias})}};
}

TEST(Convolution, ContractsTheInputsChannels) {
  EXPECT_EQ(
      rule_text("aten::convolution", {{2, 4, 5, 5}, {6, 4, 3, 3}, {6}}, {{"groups", 1}}),
      "([a,c,-,-],[b,c,-,-],[b])->([a,b,-,-]) sum={c} filled={b,c} added={2} linear={0,2}{1,2}");
  EXPECT_EQ(
      rule_text("aten::convolution", {{2, 4, 5}, {6, 4, 3}}, {{"groups", 1}}),
      "([a,c,-],[b,c,-])->([a,b,-]) sum={c} filled={b,c} linear={0}{1}");
}

TEST(Convolution, GroupsAreTheSlowerFactorOfTheChannels) {
  EXPECT_EQ(
      rule_text("aten::convolution", {{2, 8, 5, 5}, {12, 2, 3, 3}, {12}}, {{"groups", 4}}),
      "([a,(d c),-,-],[(d b),c,-,-],[(d b)])->([a,(d b),-,-]) sum={c} filled={b,c,d} added={2} linear={0,2}{1,2} "
      "groups=[d]");
}

TEST(Convolution, ATransposedOneHasTheInputsChannelsFirst) {
  EXPECT_EQ(
      mapping_text("aten::convolution", {{2, 4, 3, 3}, {4, 6, 2, 2}, {6}}, {{"groups", 1}, {"transposed", true}}),
      "([a,c,-,-],[c,b,-,-],[b])->([a,b,-,-])");
  EXPECT_EQ(
      rule_text("aten::convolution", {{2, 4, 3, 3}, {4, 3, 2, 2}, {6}}, {{"groups", 2}, {"transposed", true}}),
      "([a,(d c),-,-],[(d c),b,-,-],[(d b)])->([a,(d b),-,-]) sum={c} filled={b,c,d} added={2} linear={0,2}{1,2} "
      "groups=[d]");
}

TEST(Convolution, WithoutSamplesThereIsNoRule) {
  EXPECT_EQ(rule_text("aten::convolution", {{4, 5, 5}, {6, 4, 3, 3}}, {{"groups", 1}}), "none");
}

TEST(Convolution, BackwardGivesAllThreeGradients) {
  auto arguments = backward(1, true, true, false);
  EXPECT_EQ(
      rule_text("aten::convolution_backward", {{2, 6, 3, 3}, {2, 4, 5, 5}, {6, 4, 3, 3}}, arguments),
      "([a,b,-,-],[a,c,-,-],[b,c,-,-])->([a,c,-,-],[b,c,-,-],[b]) filled={b,c} linear={0}");
  arguments["bias_sizes"] = Ints{6};
  EXPECT_EQ(
      rule_text("aten::convolution_backward", {{2, 6, 3, 3}, {2, 4, 5, 5}, {6, 4, 3, 3}}, arguments),
      "([a,b,-,-],[a,c,-,-],[b,c,-,-])->([a,c,-,-],[b,c,-,-],[b]) filled={b,c} linear={0} bias_sizes=[b]");
}

TEST(Convolution, TheBiasesGradientIsNotSummedOverInputChannels) {
  EXPECT_EQ(
      rule_text(
          "aten::convolution_backward", {{2, 8, 3, 3}, {2, 8, 5, 5}, {8, 2, 3, 3}}, backward(4, true, true, true)),
      "([a,(d b),-,-],[a,(d c),-,-],[(d b),c,-,-])->([a,(d c),-,-],[(d b),c,-,-],[(d b)]) unsharded={c} filled={b,c,d} "
      "linear={0} groups=[d]");
}

TEST(Convolution, WhatNoGradientNeedsIsNotRead) {
  EXPECT_EQ(
      rule_text(
          "aten::convolution_backward", {{2, 6, 3, 3}, {2, 4, 5, 5}, {6, 4, 3, 3}}, backward(1, true, false, false)),
      "([a,b,-,-],[a,c,-,-],[b,c,-,-])->([a,c,-,-],[b,c,-,-],[b]) filled={b,c} linear={0} unread={1}");
  EXPECT_EQ(
      rule_text(
          "aten::convolution_backward", {{2, 6, 3, 3}, {2, 4, 5, 5}, {6, 4, 3, 3}}, backward(1, false, false, true)),
      "([a,b,-,-],[a,c,-,-],[b,c,-,-])->([a,c,-,-],[b,c,-,-],[b]) unsharded={c} filled={b,c} linear={0} unread={1,2}");
}

TEST(Convolution, OfAnyNumberOfDimsIsTheSame) {
  EXPECT_EQ(
      rule_text("aten::conv2d", {{2, 8, 5, 5}, {12, 2, 3, 3}, {12}}, {{"groups", 4}}),
      "([a,(d c),-,-],[(d b),c,-,-],[(d b)])->([a,(d b),-,-]) sum={c} filled={b,c,d} added={2} linear={0,2}{1,2} "
      "groups=[d]");
  EXPECT_EQ(mapping_text("aten::conv1d.padding", {{2, 4, 5}, {6, 4, 3}}), "([a,c,-],[b,c,-])->([a,b,-])");
  EXPECT_EQ(
      mapping_text("aten::conv_transpose2d.input", {{2, 4, 3, 3}, {4, 6, 2, 2}, {6}}),
      "([a,c,-,-],[c,b,-,-],[b])->([a,b,-,-])");
  EXPECT_EQ(rule_text("aten::conv2d", {{4, 5, 5}, {6, 4, 3, 3}}), "none");
}

} // namespace convolution_test

} // namespace weft
