#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace spatial_test {
using namespace weft::testing;

TEST(Spatial, PoolsPassSamplesAndChannels) {
  EXPECT_EQ(
      rule_text("aten::max_pool2d_with_indices", {{4, 3, 6, 6}}), "([a,b,-,-])->([a,b,-,-],[a,b,-,-]) filled={b}");
  EXPECT_EQ(rule_text("aten::avg_pool2d", {{4, 3, 6, 6}}), "([a,b,-,-])->([a,b,-,-]) filled={b} linear={0}");
  EXPECT_EQ(rule_text("aten::avg_pool2d", {{3, 6, 6}}), "([a,-,-])->([a,-,-]) filled={a} linear={0}");
  EXPECT_EQ(
      rule_text("aten::adaptive_max_pool3d", {{4, 3, 6, 6, 6}}), "([a,b,-,-,-])->([a,b,-,-,-],[a,b,-,-,-]) filled={b}");
}

TEST(Spatial, APoolsBackwardReadsTheShapeOfWhatWasPooled) {
  EXPECT_EQ(
      rule_text("aten::max_pool2d_with_indices_backward", {{4, 3, 3, 3}, {4, 3, 6, 6}, {4, 3, 3, 3}}),
      "([a,b,-,-],[a,b,-,-],[a,b,-,-])->([a,b,-,-]) filled={b} linear={0} unread={1}");
  EXPECT_EQ(
      rule_text("aten::_adaptive_avg_pool3d_backward", {{3, 3, 3, 3}, {3, 6, 6, 6}}),
      "([a,-,-,-],[a,-,-,-])->([a,-,-,-]) filled={a} linear={0} unread={1}");
}

TEST(Spatial, PadsPassSamplesAndChannels) {
  const Arguments padding = {{"padding", Ints{1, 1, 1, 1}}};
  EXPECT_EQ(
      rule_text("aten::reflection_pad2d", {{4, 3, 6, 6}}, padding), "([a,b,-,-])->([a,b,-,-]) filled={b} linear={0}");
  EXPECT_EQ(rule_text("aten::replication_pad2d", {{3, 6, 6}}, padding), "([a,-,-])->([a,-,-]) filled={a} linear={0}");
  EXPECT_EQ(
      rule_text("aten::reflection_pad2d_backward", {{4, 3, 8, 8}, {4, 3, 6, 6}}, padding),
      "([a,b,-,-],[a,b,-,-])->([a,b,-,-]) filled={b} linear={0} unread={1}");
}

TEST(Spatial, ColumnsAreWindowsOfEachChannel) {
  const Arguments window = {{"kernel_size", Ints{2, 3}}};
  EXPECT_EQ(
      rule_text("aten::im2col", {{4, 3, 6, 6}}, window),
      "([a,b,-,-])->([a,(b c),-]) unsharded={c} filled={b} linear={0}");
  EXPECT_EQ(
      rule_text("aten::col2im", {{4, 18, 5}}, window),
      "([a,(b c),-])->([a,b,-,-]) unsharded={c} filled={b} linear={0}");
  EXPECT_EQ(
      rule_text("aten::im2col", {{3, 6, 6}}, window), "([a,-,-])->([(a b),-]) unsharded={b} filled={a} linear={0}");
}

TEST(Spatial, UpsamplingIsLinear) {
  EXPECT_EQ(rule_text("aten::upsample_bilinear2d", {{4, 3, 5, 2}}), "([a,b,-,-])->([a,b,-,-]) filled={b} linear={0}");
  EXPECT_EQ(rule_text("aten::upsample_nearest1d", {{4, 3, 5}}), "([a,b,-])->([a,b,-]) filled={b} linear={0}");
  EXPECT_EQ(
      rule_text("aten::upsample_bilinear2d_backward", {{4, 3, 8, 4}}, {{"input_size", Ints{4, 3, 5, 2}}}),
      "([a,b,-,-])->([a,b,-,-]) filled={b} linear={0} input_size=[a,b,-,-]");
}

TEST(Spatial, PixelsAreShuffledWithinAChannel) {
  EXPECT_EQ(
      rule_text("aten::pixel_shuffle", {{2, 12, 3, 4}}, {{"upscale_factor", 2}}),
      "([a,(b c d),e,f])->([a,b,(e c),(f d)]) unsharded={c,d} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::pixel_unshuffle", {{2, 6, 4}}, {{"downscale_factor", 2}}),
      "([a,(d b),(e c)])->([(a b c),d,e]) unsharded={b,c} filled={a,b,c,d,e} linear*={0}");
}

TEST(Spatial, ChannelsAreShuffledBetweenGroups) {
  EXPECT_EQ(
      rule_text("aten::channel_shuffle", {{2, 12, 3}}, {{"groups", 4}}),
      "([a,(d b),c])->([a,(b d),c]) filled={d} linear*={0} groups=[d]");
}

TEST(Spatial, WithoutIndicesAPoolHasOneResult) {
  EXPECT_EQ(rule_text("aten::max_pool2d", {{4, 3, 6, 6}}), "([a,b,-,-])->([a,b,-,-]) filled={b}");
  EXPECT_EQ(rule_text("aten::adaptive_avg_pool1d", {{4, 3, 6}}), "([a,b,-])->([a,b,-]) filled={b} linear={0}");
}

} // namespace spatial_test

} // namespace weft
