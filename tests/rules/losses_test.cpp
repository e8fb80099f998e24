#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace losses_test {
using namespace weft::testing;

const Arguments kNone = {{"reduction", 0}};
const Arguments kMean = {{"reduction", 1}};
const Arguments kSum = {{"reduction", 2}};

TEST(Losses, WithoutAReductionTheyArePointwise) {
  EXPECT_EQ(rule_text("aten::mse_loss", {{5, 4}, {4}}, kNone), "([a,b],[b])->([a,b])");
  EXPECT_EQ(
      rule_text("aten::binary_cross_entropy_with_logits", {{5, 4}, {5, 4}, {5, 1}, {4}}, kNone),
      "([a,b],[a,b],[a,-],[b])->([a,b])");
  EXPECT_EQ(
      rule_text("aten::huber_loss_backward", {{5, 4}, {5, 4}, {5, 4}}, kNone),
      "([a,b],[a,b],[a,b])->([a,b]) linear={0}");
}

TEST(Losses, ASumIsPartialOverShards) {
  EXPECT_EQ(rule_text("aten::smooth_l1_loss", {{5, 4}, {5, 4}}, kSum), "([a,b],[a,b])->([]) sum={a,b}");
  EXPECT_EQ(
      rule_text("aten::soft_margin_loss_backward", {{}, {5, 4}, {5, 4}}, kSum), "([],[a,b],[a,b])->([a,b]) linear={0}");
}

TEST(Losses, AMeanForbidsShards) {
  EXPECT_EQ(rule_text("aten::mse_loss", {{5, 4}, {5, 4}}), "([a,b],[a,b])->([]) unsharded={a,b}");
  EXPECT_EQ(
      rule_text("aten::mse_loss_backward", {{}, {5, 4}, {5, 4}}, kMean),
      "([],[a,b],[a,b])->([a,b]) unsharded={a,b} linear={0}");
}

TEST(Losses, BinaryCrossEntropyDoesNotBroadcastItsTarget) {
  EXPECT_EQ(rule_text("aten::binary_cross_entropy", {{5, 4}, {5, 4}, {4}}, kSum), "([a,b],[a,b],[b])->([]) sum={a,b}");
  EXPECT_EQ(rule_text("aten::binary_cross_entropy", {{5, 4}, {4}}, kSum), "none");
  EXPECT_EQ(
      rule_text("aten::binary_cross_entropy_backward", {{5, 4}, {5, 4}, {5, 4}}, kNone),
      "([a,b],[a,b],[a,b])->([a,b]) linear={0}");
}

TEST(Losses, ClassesAreNotShardedAndRowsPass) {
  EXPECT_EQ(
      rule_text("aten::nll_loss_forward", {{5, 4}, {5}, {4}}, kNone),
      "([a,-],[a],[-])->([a],[]) linear={0} constant={1}");
  EXPECT_EQ(rule_text("aten::nll_loss_forward", {{5, 4}, {5}, {4}}, kSum), "([a,-],[a],[-])->([],[]) sum={a}");
  EXPECT_EQ(rule_text("aten::nll_loss_forward", {{5, 4}, {5}, {4}}, kMean), "([a,-],[a],[-])->([],[]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::nll_loss_forward", {{4}, {}}, kSum), "none");
  EXPECT_EQ(
      rule_text("aten::nll_loss2d_forward", {{2, 4, 5, 3}, {2, 5, 3}}, kSum),
      "([a,-,b,c],[a,b,c])->([],[]) sum={a,b,c}");
}

TEST(Losses, BackwardDividesByTheWeightThatForwardGave) {
  EXPECT_EQ(
      rule_text("aten::nll_loss_backward", {{5}, {5, 4}, {5}, {4}, {}}, kNone),
      "([a],[a,-],[a],[-],[])->([a,-]) linear={0} unread={1,4}");
  EXPECT_EQ(
      rule_text("aten::nll_loss_backward", {{}, {5, 4}, {5}, {4}, {}}, kMean),
      "([],[a,-],[a],[-],[])->([a,-]) linear={0} unread={1}");
  EXPECT_EQ(
      mapping_text("aten::nll_loss2d_backward", {{2, 5, 3}, {2, 4, 5, 3}, {2, 5, 3}, {4}, {}}, kNone),
      "([a,b,c],[a,-,b,c],[a,b,c],[-],[])->([a,-,b,c])");
}

TEST(Losses, MarginsAreOfAllClasses) {
  EXPECT_EQ(rule_text("aten::multi_margin_loss", {{5, 4}, {5}, {4}}, kNone), "([a,-],[a],[-])->([a]) filled={a}");
  EXPECT_EQ(rule_text("aten::multi_margin_loss", {{5, 4}, {5}}, kMean), "([a,-],[a])->([]) unsharded={a}");
  EXPECT_EQ(
      rule_text("aten::multilabel_margin_loss_forward", {{5, 4}, {5, 4}}, kSum),
      "([a,-],[a,-])->([],[a,-]) filled={a}");
  EXPECT_EQ(
      rule_text("aten::multilabel_margin_loss_backward", {{}, {5, 4}, {5, 4}, {5, 4}}, kSum),
      "([],[a,-],[a,-],[a,-])->([a,-]) linear={0}");
  EXPECT_EQ(
      rule_text("aten::multi_margin_loss_backward", {{}, {5, 4}, {5}}, kMean),
      "([],[a,-],[a])->([a,-]) unsharded={a} linear={0}");
}

TEST(Losses, CrossEntropyShardsRows) {
  EXPECT_EQ(rule_text("aten::cross_entropy_loss", {{5, 4}, {5}}, kSum), "([a,-],[a])->([]) sum={a}");
  EXPECT_EQ(rule_text("aten::cross_entropy_loss", {{5, 4, 3}, {5, 3}}, kNone), "([a,-,b],[a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::cross_entropy_loss", {{5, 4}, {5, 4}}, kSum), "([a,-],[a,-])->([]) sum={a}");
  EXPECT_EQ(rule_text("aten::cross_entropy_loss", {{5, 4}, {5}}, kMean), "([a,-],[a])->([]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::cross_entropy_loss", {{4}, {}}, kSum), "none");
}

TEST(Losses, WithoutTheWeightOfAllRowsThereIsOneResult) {
  EXPECT_EQ(rule_text("aten::nll_loss_nd", {{5, 4}, {5}}, kSum), "([a,-],[a])->([]) sum={a}");
  EXPECT_EQ(rule_text("aten::nll_loss_nd", {{5, 4}, {5}}, kNone), "([a,-],[a])->([a]) linear={0}");
}

} // namespace losses_test

} // namespace weft
