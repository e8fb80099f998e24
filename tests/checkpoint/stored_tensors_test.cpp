#include "weft/checkpoint/stored_tensors.h"

#include <gtest/gtest.h>

namespace weft {

namespace stored_tensors_test {

TEST(StoredTensors, ABlockIsWhatARankHolds) {
  const auto index = block_of({8, 6}, Layout({StridedShard(0, 2), Shard(1)}), {2, 4}, {1, 3});
  EXPECT_EQ(index[0], (Runs{{2, 2}, {6, 2}}));
  EXPECT_EQ(index[1], (Runs{{6, 0}}));
  EXPECT_EQ(block_shape(index), c10::DimVector({4, 0}));
  EXPECT_EQ(block_numel(index), 0);
  EXPECT_EQ(block_numel(full_block({8, 6})), 48);
  EXPECT_EQ(block_numel(full_block({})), 1);
}

TEST(StoredTensors, HaveAtMost128Chunks) {
  EXPECT_EQ(chunk_bytes_of(0), uint64_t{64} << 10);
  EXPECT_EQ(chunk_bytes_of(uint64_t{8} << 20), uint64_t{64} << 10);
  EXPECT_EQ(chunk_bytes_of((uint64_t{8} << 20) + 1), uint64_t{128} << 10);
  EXPECT_EQ(chunk_bytes_of(uint64_t{1} << 40), uint64_t{8} << 30);
}

} // namespace stored_tensors_test

} // namespace weft
