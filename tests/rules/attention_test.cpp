#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace attention_test {
using namespace weft::testing;

const std::vector<Ints> kEqual = {{5, 4, 6, 8}, {5, 4, 3, 8}, {5, 4, 3, 8}};

std::vector<Ints> with(std::vector<Ints> shapes, const Ints& another) {
  shapes.push_back(another);
  return shapes;
}

TEST(Attention, SamplesAndHeadsPass) {
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_flash_attention_for_cpu", kEqual),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-],[a,b,-]) filled={a,b}");
}

TEST(Attention, SeveralHeadsOfTheQueryMayUseOneHeadOfTheKey) {
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_flash_attention_for_cpu", {{5, 4, 6, 8}, {5, 2, 3, 8}, {5, 2, 3, 8}}),
      "([a,(b c),-,-],[a,b,-,-],[a,b,-,-])->([a,(b c),-,-],[a,(b c),-]) filled={a,b,c}");
}

TEST(Attention, AMaskBroadcasts) {
  const auto mask = [](const Ints& sizes) {
    return mapping_text("aten::_scaled_dot_product_flash_attention_for_cpu", with(kEqual, sizes));
  };
  const std::string before = "([a,b,-,-],[a,b,-,-],[a,b,-,-],";
  const std::string after = ")->([a,b,-,-],[a,b,-])";
  EXPECT_EQ(mask({6, 3}), before + "[-,-]" + after);
  EXPECT_EQ(mask({5, 1, 6, 3}), before + "[a,-,-,-]" + after);
  EXPECT_EQ(mask({1, 4, 6, 3}), before + "[-,b,-,-]" + after);
}

TEST(Attention, OtherResultsAreTheSameOnEveryRank) {
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_flash_attention", kEqual),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-],[a,b,-],[-],[-],[-],[],[-]) filled={a,b} constant={2,3,4,5,6}");
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_efficient_attention", kEqual),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-],[a,b,-],[],[]) filled={a,b} constant={2,3}");
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_cudnn_attention", kEqual),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-],[a,b,-,-],[-],[-],[],[],[-]) filled={a,b} constant={2,3,4,5,6}");
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_fused_attention_overrideable", kEqual),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-],[a,b,-],[-],[-],[],[],[-]) filled={a,b} constant={2,3,4,5,6}");
}

TEST(Attention, TheMathFormGivesTheWeightsToo) {
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_attention_math", kEqual),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-],[a,b,-,-]) filled={a,b}");
  EXPECT_EQ(
      rule_text("aten::_scaled_dot_product_attention_math", {{4, 6, 8}, {4, 3, 8}, {4, 3, 8}}),
      "([a,-,-],[a,-,-],[a,-,-])->([a,-,-],[a,-,-]) filled={a}");
}

TEST(Attention, RandomNumbersAndOtherShapesHaveNoRule) {
  EXPECT_EQ(rule_text("aten::_scaled_dot_product_flash_attention", kEqual, {{"dropout_p", 0.1}}), "none");
  EXPECT_EQ(rule_text("aten::_scaled_dot_product_flash_attention", kEqual, {{"return_debug_mask", true}}), "none");
  EXPECT_EQ(rule_text("aten::_scaled_dot_product_flash_attention.quantized", with(kEqual, {5, 4})), "none");
  EXPECT_EQ(rule_text("aten::_scaled_dot_product_attention_math", {{6, 8}, {3, 8}, {3, 8}}), "none");
  EXPECT_EQ(rule_text("aten::_scaled_dot_product_attention_math", {{5, 4, 6, 8}, {5, 1, 3, 8}, {5, 4, 3, 8}}), "none");
}

TEST(Attention, BackwardIsLinearInTheGradient) {
  const Ints query = {5, 4, 6, 8};
  const Ints key = {5, 2, 3, 8};
  EXPECT_EQ(
      rule_text(
          "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
          {query, query, key, key, query, {5, 4, 6}, {5, 1, 6, 3}}),
      "([a,(b c),-,-],[a,(b c),-,-],[a,b,-,-],[a,b,-,-],[a,(b c),-,-],[a,(b c),-],[a,-,-,-])->"
      "([a,(b c),-,-],[a,b,-,-],[a,b,-,-]) filled={a,b,c} linear={0}");
  EXPECT_EQ(
      rule_text(
          "aten::_scaled_dot_product_flash_attention_backward",
          {query, query, query, query, query, {5, 4, 6}, {0}, {0}, {}, {}}),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-],[-],[-],[],[])->"
      "([a,b,-,-],[a,b,-,-],[a,b,-,-]) filled={a,b} linear={0}");
  EXPECT_EQ(
      rule_text(
          "aten::_scaled_dot_product_cudnn_attention_backward",
          {query, query, query, query, query, {5, 4, 6, 1}, {}, {}, {5, 4, 6, 6}, {0}, {0}}),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-,-],[],[],[a,b,-,-],[-],[-])->"
      "([a,b,-,-],[a,b,-,-],[a,b,-,-]) filled={a,b} linear={0}");
}

TEST(Attention, TheGradientOfAMaskIsSummedWhereItBroadcasts) {
  const Ints query = {5, 4, 6, 8};
  EXPECT_EQ(
      rule_text(
          "aten::_scaled_dot_product_efficient_attention_backward",
          {query, query, query, query, {5, 1, 6, 6}, query, {5, 4, 6}, {}, {}}),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-],[a,b,-,-],[a,-,-,-],[a,b,-,-],[a,b,-],[],[])->"
      "([a,b,-,-],[a,b,-,-],[a,b,-,-],[a,-,-,-]) filled={a,b} linear={0}");
}

TEST(Attention, WhereAKernelIsChosenRowsOfTheQueryPassToo) {
  EXPECT_EQ(
      rule_text("aten::scaled_dot_product_attention", kEqual),
      "([a,b,c,-],[a,b,-,-],[a,b,-,-])->([a,b,c,-]) filled={a,b,c}");
  EXPECT_EQ(
      mapping_text("aten::scaled_dot_product_attention", with(kEqual, {6, 3})),
      "([a,b,c,-],[a,b,-,-],[a,b,-,-],[c,-])->([a,b,c,-])");
  EXPECT_EQ(
      mapping_text("aten::scaled_dot_product_attention", with(kEqual, {5, 1, 1, 3})),
      "([a,b,c,-],[a,b,-,-],[a,b,-,-],[a,-,-,-])->([a,b,c,-])");
}

TEST(Attention, RowsThatAttendToWhatComesBeforeThemStayTogether) {
  EXPECT_EQ(
      rule_text("aten::scaled_dot_product_attention", kEqual, {{"is_causal", true}}),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-]) filled={a,b}");
  EXPECT_EQ(
      rule_text(
          "aten::scaled_dot_product_attention", {{5, 4, 6, 8}, {5, 2, 6, 8}, {5, 2, 6, 8}},
          {{"is_causal", true}, {"enable_gqa", true}}),
      "([a,(b c),-,-],[a,b,-,-],[a,b,-,-])->([a,(b c),-,-]) filled={a,b,c}");
}

TEST(Attention, ThereMayBeNoHeads) {
  EXPECT_EQ(
      rule_text("aten::scaled_dot_product_attention", {{5, 6, 8}, {5, 3, 8}, {5, 3, 8}, {5, 6, 3}}),
      "([a,b,-],[a,-,-],[a,-,-],[a,b,-])->([a,b,-]) filled={a,b}");
  EXPECT_EQ(rule_text("aten::scaled_dot_product_attention", {{6, 8}, {3, 8}, {3, 8}}), "none");
  EXPECT_EQ(rule_text("aten::scaled_dot_product_attention", kEqual, {{"dropout_p", 0.1}}), "none");
}

} // namespace attention_test

} // namespace weft
