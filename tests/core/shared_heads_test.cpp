#include "weft/core/shared_heads.h"

#include <gtest/gtest.h>

namespace weft {

namespace shared_heads_test {

TEST(SharedHeads, RanksShareAHeadIfShardsOfTheQuerySplitItsHeads) {
  const Layout sharded = {Shard(kHeadDim)};
  EXPECT_EQ(shards_sharing_heads(8, 2, sharded, {Replicate()}, {4}), 4);
  EXPECT_EQ(shards_sharing_heads(12, 3, sharded, {Replicate()}, {2}), 2);
  EXPECT_EQ(shards_sharing_heads(8, 2, {Shard(kHeadDim), Shard(kHeadDim)}, {Replicate(), Replicate()}, {2, 2}), 4);
}

TEST(SharedHeads, NoRankSharesAHeadIfEveryRankHasHeadsOfItsOwn) {
  const Layout sharded = {Shard(kHeadDim)};
  EXPECT_EQ(shards_sharing_heads(8, 4, sharded, {Replicate()}, {4}), std::nullopt);
  EXPECT_EQ(shards_sharing_heads(8, 8, sharded, {Replicate()}, {3}), std::nullopt);
  EXPECT_EQ(shards_sharing_heads(8, 2, sharded, {Shard(kHeadDim)}, {4}), std::nullopt);
  EXPECT_EQ(shards_sharing_heads(8, 2, {Replicate()}, {Replicate()}, {4}), std::nullopt);
  EXPECT_EQ(shards_sharing_heads(8, 2, {StridedShard(kHeadDim, 2)}, {Replicate()}, {4}), std::nullopt);
  EXPECT_EQ(shards_sharing_heads(8, 3, sharded, {Replicate()}, {4}), std::nullopt);
  EXPECT_EQ(shards_sharing_heads(8, 0, sharded, {Replicate()}, {4}), std::nullopt);
}

} // namespace shared_heads_test

} // namespace weft
