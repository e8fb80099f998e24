#include "weft/tensor/decompositions/batch_norm_input.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace batch_norm_input_test {

SpecPtr spec(const char* text) {
  return TensorSpec::parse(text);
}

TEST(BatchNormInput, SamplesAreShardedAlongAnyDimButThatOfTheChannels) {
  EXPECT_TRUE(shards_samples(*spec("f32[5,4,3] @ mesh(a=2) {S(0)}")));
  EXPECT_TRUE(shards_samples(*spec("f32[5,4,3] @ mesh(a=2,b=2) {S(1),S(2)}")));
  EXPECT_FALSE(shards_samples(*spec("f32[5,4,3] @ mesh(a=2,b=2) {S(1),P(sum)}")));
}

TEST(BatchNormInput, NumbersOfChannelsAreShardedAsTheChannelsAre) {
  EXPECT_EQ(channel_layout(Layout::parse("{S(0),S(1)}")), Layout::parse("{R,S(0)}"));
  EXPECT_EQ(channel_layout(Layout::parse("{S(1)[1],S(1)[0]}")), Layout::parse("{S(0)[1],S(0)[0]}"));
  EXPECT_EQ(channel_layout(Layout::parse("{SS(1,2)}")), Layout::parse("{SS(0,2)}"));
}

TEST(BatchNormInput, ARankIsEmptyWhereThereAreFewerChunksThanRanks) {
  EXPECT_TRUE(leaves_a_rank_empty(*spec("f32[5,4] @ mesh(a=4) {S(0)}")));
  EXPECT_TRUE(leaves_a_rank_empty(*spec("f32[8,4] @ mesh(a=3) {S(1)}")));
  EXPECT_FALSE(leaves_a_rank_empty(*spec("f32[5,4] @ mesh(a=2) {S(0)}")));
  EXPECT_FALSE(leaves_a_rank_empty(*spec("f32[5,4] @ mesh(a=4) {R}")));
}

TEST(BatchNormInput, NumbersOfChannelsBroadcastAgainstTheInput) {
  const auto input = at::zeros({5, 4, 3, 2});
  EXPECT_EQ(per_channel(at::zeros({4}), input).sizes(), (std::vector<int64_t>{1, 4, 1, 1}));
  EXPECT_EQ(sample_dims(input), (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(samples_per_channel(input), 30);
  EXPECT_EQ(samples_per_channel(at::zeros({5, 0})), 0);
}

} // namespace batch_norm_input_test

} // namespace weft
