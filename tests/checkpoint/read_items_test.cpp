#include "weft/checkpoint/read_items.h"

#include "weft/core/dense_strides.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace read_items_test {

using Kind = ReadItem::Kind;

/// A matrix of floats in one part, with checksums of chunks of so many bytes.
StoredTensor stored_matrix(int64_t rows, int64_t columns, uint64_t chunk_bytes) {
  StoredTensor stored{.dtype = at::kFloat, .sizes = {rows, columns}, .parts = {}};
  const auto bytes = static_cast<uint64_t>(4 * rows * columns);
  const std::vector<uint32_t> values((bytes + chunk_bytes - 1) / chunk_bytes, 0);
  const ChunkChecksums checksums{0, bytes, chunk_bytes, values};
  stored.parts.push_back(
      {.file = 0,
       .begin = 0,
       .index = full_block(stored.sizes),
       .strides = dense_strides(stored.sizes),
       .checksums = std::make_shared<const ChunkChecksums>(checksums)});
  return stored;
}

std::vector<ReadItem> items_of(const StoredTensor& stored, const BlockIndex& wanted, bool verify = true) {
  return plan_items(
      {.name = "x", .stored = &stored, .wanted = wanted, .local = at::empty(block_shape(wanted))}, 0, verify);
}

int64_t count_of(const std::vector<ReadItem>& items, Kind kind) {
  return std::count_if(items.begin(), items.end(), [&](const ReadItem& item) { return item.kind == kind; });
}

TEST(ReadItems, RowsAreRangesOfTheFile) {
  const auto stored = stored_matrix(8, 16, 128); // two rows a chunk
  const auto items = items_of(stored, {{{2, 4}}, {{0, 16}}});
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].kind, Kind::Consecutive);
  EXPECT_EQ(items[0].begin, 128u);
  EXPECT_EQ(items[0].bytes, 256u);
  ASSERT_EQ(items[0].chunks.size(), 2u);
  EXPECT_EQ(items[0].chunks[1].number, 2u);
  EXPECT_EQ(items[0].chunks[1].begin, 256u);
  EXPECT_EQ(items[0].chunks[1].end, 384u);
  EXPECT_TRUE(items_of(stored, {{{2, 4}}, {{0, 16}}}, false)[0].chunks.empty());
}

/// Of the items of all ranks, how many bytes of each chunk of a matrix in one part are verified.
std::map<uint64_t, uint64_t> verified_bytes(const StoredTensor& stored, const std::vector<BlockIndex>& blocks) {
  std::map<uint64_t, uint64_t> bytes;
  for (const auto& block : blocks) {
    std::map<uint64_t, uint64_t> ends;
    for (const auto& item : items_of(stored, block)) {
      for (const auto& chunk : item.chunks) {
        bytes[chunk.number] += chunk.end - chunk.begin;
        // The ranges of a chunk follow each other in the order of the items.
        const auto begin = chunk.number * stored.parts[0].checksums->chunk_bytes;
        EXPECT_EQ(chunk.begin, ends.contains(chunk.number) ? ends[chunk.number] : begin);
        ends[chunk.number] = chunk.end;
        const bool is_within = item.begin <= chunk.begin && chunk.end <= item.begin + item.bytes;
        EXPECT_TRUE(is_within || item.kind == Kind::Rows);
      }
    }
  }
  return bytes;
}

TEST(ReadItems, OneOfTheRanksReadsAChunkThatNoneReadsCompletely) {
  const auto stored = stored_matrix(9, 16, 128);
  const auto bytes = verified_bytes(stored, {{{{0, 3}}, {{0, 16}}}, {{{3, 3}}, {{0, 16}}}, {{{6, 3}}, {{0, 16}}}});
  // Rows 2 and 3 are a chunk of two ranks, all others are of one; the last chunk is one row.
  EXPECT_EQ(bytes, (std::map<uint64_t, uint64_t>{{0, 128}, {1, 128}, {2, 128}, {3, 128}, {4, 64}}));
}

TEST(ReadItems, OneOfTheRanksThatWantRowsOfAChunkReadsAllOfIt) {
  for (const uint64_t chunk_bytes : {16, 48, 128, 208, 4096}) {
    const auto stored = stored_matrix(8, 16, chunk_bytes);
    std::map<uint64_t, uint64_t> expected;
    for (uint64_t begin = 0; begin < 512; begin += chunk_bytes) {
      expected[begin / chunk_bytes] = std::min(chunk_bytes, 512 - begin);
    }
    for (const int64_t ranks : {2, 4}) {
      std::vector<BlockIndex> blocks;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        blocks.push_back({{{0, 8}}, {{16 / ranks * rank, 16 / ranks}}});
        EXPECT_EQ(count_of(items_of(stored, blocks.back()), Kind::Verification), 0);
      }
      EXPECT_EQ(verified_bytes(stored, blocks), expected) << chunk_bytes << " by " << ranks;
    }
  }
}

TEST(ReadItems, ChunksOfInterleavedRowsAreReadOnceMore) {
  const auto stored = stored_matrix(8, 16, 128);
  std::vector<BlockIndex> blocks;
  for (int64_t rank = 0; rank < 2; ++rank) {
    blocks.push_back({{{0, 8}}, {{4 * rank, 4}, {8 + 4 * rank, 4}}});
  }
  EXPECT_EQ(verified_bytes(stored, blocks), (std::map<uint64_t, uint64_t>{{0, 128}, {1, 128}, {2, 128}, {3, 128}}));
  EXPECT_EQ(
      count_of(items_of(stored, blocks[0]), Kind::Verification) +
          count_of(items_of(stored, blocks[1]), Kind::Verification),
      4);
}

TEST(ReadItems, AnyBlockHasItsElementsOnceForAnyChunks) {
  for (const uint64_t chunk_bytes : {16, 48, 80, 128, 4096}) {
    const auto stored = stored_matrix(7, 12, chunk_bytes);
    for (int64_t rows = 1; rows <= 7; ++rows) {
      for (int64_t column = 0; column < 12; column += 5) {
        const BlockIndex wanted = {{{7 - rows, rows}}, {{column, 12 - column}}};
        std::set<std::pair<int64_t, int64_t>> elements;
        int64_t count = 0;
        for (const auto& item : items_of(stored, wanted)) {
          if (item.kind == Kind::Verification) {
            continue;
          }
          for (int64_t i = 0; i < item.box.sizes[0]; ++i) {
            for (int64_t j = 0; j < item.box.sizes[1]; ++j, ++count) {
              const auto at = item.box.begin / 4 + static_cast<uint64_t>(12 * i + j);
              elements.emplace(item.box.target_offset[0] + i, item.box.target_offset[1] + j);
              EXPECT_EQ(static_cast<int64_t>(at / 12), 7 - rows + item.box.target_offset[0] + i);
              EXPECT_EQ(static_cast<int64_t>(at % 12), column + item.box.target_offset[1] + j);
            }
          }
        }
        EXPECT_EQ(count, block_numel(wanted)) << chunk_bytes;
        EXPECT_EQ(static_cast<int64_t>(elements.size()), count) << chunk_bytes;
      }
    }
  }
}

} // namespace read_items_test

} // namespace weft
