#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace norms_test {
using namespace weft::testing;

c10::List<bool> all_wanted() {
  return {true, true, true};
}

TEST(Norms, LayerNormPassesTheDimsBeforeThoseThatAreNormalized) {
  EXPECT_EQ(
      rule_text("aten::native_layer_norm", {{2, 5, 4}, {4}, {4}}, {{"normalized_shape", Ints{4}}}),
      "([a,b,-],[-],[-])->([a,b,-],[a,b,-],[a,b,-])");
  EXPECT_EQ(
      rule_text("aten::native_layer_norm", {{2, 5, 4}}, {{"normalized_shape", Ints{5, 4}}}),
      "([a,-,-])->([a,-,-],[a,-,-],[a,-,-])");
}

TEST(Norms, ALayerNormsBackwardSumsTheGradientsOfItsWeights) {
  EXPECT_EQ(
      rule_text(
          "aten::native_layer_norm_backward", {{5, 4}, {5, 4}, {5, 1}, {5, 1}, {4}, {4}},
          {{"normalized_shape", Ints{4}}, {"output_mask", all_wanted()}}),
      "([a,-],[a,-],[a,-],[a,-],[-],[-])->([a,-],[-],[-]) linear={0} unread={5}");
}

TEST(Norms, RmsNormHasNoMean) {
  const Arguments last = {{"normalized_shape", Ints{4}}};
  EXPECT_EQ(rule_text("aten::_fused_rms_norm", {{5, 4}, {4}}, last), "([a,-],[-])->([a,-],[a,-])");
  EXPECT_EQ(
      rule_text("aten::_fused_rms_norm_backward", {{5, 4}, {5, 4}, {5, 1}, {4}}, last),
      "([a,-],[a,-],[a,-],[-])->([a,-],[-]) linear={0}");
}

TEST(Norms, GroupNormShardsSamplesAndGroups) {
  const Arguments sizes = {{"N", 5}, {"C", 6}, {"HxW", 3}, {"group", 2}};
  EXPECT_EQ(
      rule_text("aten::native_group_norm", {{5, 6, 3}, {6}, {6}}, sizes),
      "([a,(b c),-],[(b c)],[(b c)])->([a,(b c),-],[a,b],[a,b]) unsharded={c} filled={b} N=[a] C=[(b c)] group=[b]");
  EXPECT_EQ(
      rule_text("aten::native_group_norm_backward", {{5, 6, 3}, {5, 6, 3}, {5, 2}, {5, 2}, {6}}, sizes),
      "([a,(b c),-],[a,(b c),-],[a,b],[a,b],[(b c)])->([a,(b c),-],[(b c)],[(b c)]) unsharded={c} filled={b} "
      "linear={0} "
      "N=[a] C=[(b c)] group=[b]");
}

TEST(Norms, BatchNormTakesStatisticsOfAllSamples) {
  EXPECT_EQ(
      rule_text("aten::native_batch_norm", {{5, 6, 3}, {6}, {6}}, {{"training", true}}),
      "([-,a,-],[a],[a])->([-,a,-],[a],[a]) filled={a}");
  EXPECT_EQ(
      rule_text("aten::_native_batch_norm_legit.no_stats", {{5, 6, 3}, {6}, {6}}, {{"training", true}}),
      "([-,a,-],[a],[a])->([-,a,-],[a],[a]) filled={a}");
}

TEST(Norms, ABatchNormThatTrainsUpdatesTheRunningStatistics) {
  EXPECT_EQ(
      rule_text("aten::native_batch_norm", {{5, 6, 3}, {6}, {6}, {6}, {6}}, {{"training", true}}),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-],[a],[a]) filled={a} updated={3,4}");
}

TEST(Norms, ABatchNormByRunningStatisticsShardsAllButTheChannels) {
  EXPECT_EQ(
      rule_text("aten::native_batch_norm", {{5, 6, 3}, {6}, {6}, {6}, {6}}, {{"training", false}}),
      "([a,b,c],[b],[b],[b],[b])->([a,b,c],[-],[-]) unsharded={b} filled={a,b,c} constant={1,2}");
  EXPECT_EQ(
      rule_text("aten::_native_batch_norm_legit_no_training", {{5, 6, 3}, {6}, {6}, {6}, {6}}),
      "([a,b,c],[b],[b],[b],[b])->([a,b,c],[-],[-]) unsharded={b} filled={a,b,c} constant={1,2}");
  EXPECT_EQ(
      rule_text("aten::cudnn_batch_norm", {{5, 6, 3}, {6}, {6}, {6}, {6}}, {{"training", false}}),
      "([a,b,c],[b],[b],[b],[b])->([a,b,c],[-],[-],[-]) unsharded={b} filled={a,b,c} constant={1,2,3}");
  EXPECT_EQ(rule_text("aten::native_batch_norm", {{5, 6, 3}}, {{"training", false}}), "none");
}

TEST(Norms, NothingIsShardedIfTheBackendKeepsABuffer) {
  const std::vector<Ints> shapes = {{5, 6, 3}, {6}, {6}, {6}, {6}};
  EXPECT_EQ(
      rule_text("aten::cudnn_batch_norm", shapes, {{"training", true}}),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-],[a],[a],[-]) unsharded={a} updated={3,4}");
  EXPECT_EQ(
      rule_text("aten::_batch_norm_with_update", shapes),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-],[a],[a],[-]) unsharded={a} updated={3,4}");
  EXPECT_EQ(
      rule_text("aten::_batch_norm_with_update_functional", shapes),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-],[a],[a],[-],[a],[a]) unsharded={a}");
}

TEST(Norms, TheFunctionalFormGivesTheRunningStatistics) {
  const std::vector<Ints> shapes = {{5, 6, 3}, {6}, {6}, {6}, {6}};
  EXPECT_EQ(
      rule_text("aten::_native_batch_norm_legit_functional", shapes, {{"training", true}}),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-],[a],[a],[a],[a]) filled={a}");
  EXPECT_EQ(
      rule_text("aten::_native_batch_norm_legit_functional", shapes, {{"training", false}}),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-],[-],[-],[a],[a]) unsharded={a}");
}

TEST(Norms, ABatchNormsBackwardReadsTheStatisticsThatForwardUsed) {
  const std::vector<Ints> shapes = {{5, 6, 3}, {5, 6, 3}, {6}, {6}, {6}, {6}, {6}};
  EXPECT_EQ(
      rule_text("aten::native_batch_norm_backward", shapes, {{"train", true}}),
      "([-,a,-],[-,a,-],[a],[a],[a],[a],[a])->([-,a,-],[a],[a]) filled={a} linear={0} unread={3,4}");
  EXPECT_EQ(
      rule_text("aten::native_batch_norm_backward", shapes, {{"train", false}}),
      "([a,b,c],[a,b,c],[b],[b],[b],[b],[b])->([a,b,c],[b],[b]) filled={a,b,c} linear={0} unread={5,6}");
  EXPECT_EQ(
      mapping_text(
          "aten::native_batch_norm_backward", {{5, 6, 3}, {5, 6, 3}, {6}, {6}, {6}, {0}, {0}}, {{"train", false}}),
      "([a,b,c],[a,b,c],[b],[b],[b],[-],[-])->([a,b,c],[b],[b])");
}

TEST(Norms, BackwardIsShardedIfTheBackendKeptNothing) {
  EXPECT_EQ(
      rule_text("aten::batch_norm_backward", {{5, 6, 3}, {5, 6, 3}, {6}, {6}, {6}, {6}, {6}, {0}}, {{"update", true}}),
      "([-,a,-],[-,a,-],[a],[a],[a],[a],[a],[-])->([-,a,-],[a],[a]) filled={a} linear={0} unread={3,4}");
  EXPECT_EQ(
      rule_text("aten::cudnn_batch_norm_backward", {{5, 6, 3}, {5, 6, 3}, {6}, {6}, {6}, {6}, {6}, {16}}),
      "([-,a,-],[-,a,-],[a],[a],[a],[a],[a],[-])->([-,a,-],[a],[a]) unsharded={a} linear={1} unread={3,4}");
}

TEST(Norms, WithoutWhatBackwardNeedsThereIsOneResult) {
  EXPECT_EQ(
      rule_text("aten::layer_norm", {{2, 5, 4}, {4}, {4}}, {{"normalized_shape", Ints{4}}}),
      "([a,b,-],[-],[-])->([a,b,-])");
  EXPECT_EQ(rule_text("aten::rms_norm", {{5, 4}, {4}}, {{"normalized_shape", Ints{4}}}), "([a,-],[-])->([a,-])");
  EXPECT_EQ(
      rule_text("aten::group_norm", {{5, 6, 3}, {6}, {6}}, {{"num_groups", 2}}),
      "([a,(b c),-],[(b c)],[(b c)])->([a,(b c),-]) unsharded={c} filled={b} num_groups=[b]");
  EXPECT_EQ(
      rule_text("aten::batch_norm", {{5, 6, 3}, {6}, {6}, {6}, {6}}, {{"training", true}}),
      "([-,a,-],[a],[a],[a],[a])->([-,a,-]) filled={a} updated={3,4}");
  EXPECT_EQ(
      rule_text("aten::batch_norm", {{5, 6, 3}, {6}, {6}, {6}, {6}}, {{"training", false}}),
      "([a,b,c],[b],[b],[b],[b])->([a,b,c]) filled={a,b,c}");
}

TEST(Norms, InstanceNormShardsSamplesUnlessTheirStatisticsAreKept) {
  const auto norm = [](std::vector<Ints> shapes, bool use_input_stats) {
    return rule_text("aten::instance_norm", std::move(shapes), {{"use_input_stats", use_input_stats}});
  };
  EXPECT_EQ(norm({{5, 6, 3}, {6}, {6}}, true), "([a,b,-],[b],[b])->([a,b,-]) filled={a,b}");
  EXPECT_EQ(
      norm({{5, 6, 3}, {6}, {6}, {6}, {6}}, true),
      "([a,b,-],[b],[b],[b],[b])->([a,b,-]) unsharded={a} filled={a,b} updated={3,4}");
  EXPECT_EQ(norm({{5, 6, 3}, {6}, {6}, {6}, {6}}, false), "([a,b,-],[b],[b],[b],[b])->([a,b,-]) filled={a,b}");
}

} // namespace norms_test

} // namespace weft
