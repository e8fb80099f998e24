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
  EXPECT_TRUE(items[0].has_checksums);
  EXPECT_FALSE(items_of(stored, {{{2, 4}}, {{0, 16}}}, false)[0].has_checksums);
}

TEST(ReadItems, OneOfTheRanksReadsAChunkThatNoneReadsCompletely) {
  const auto stored = stored_matrix(9, 16, 128);
  int64_t verifications = 0;
  for (int64_t rank = 0; rank < 3; ++rank) {
    verifications += count_of(items_of(stored, {{{3 * rank, 3}}, {{0, 16}}}), Kind::Verification);
  }
  EXPECT_EQ(verifications, 1); // rows 2 and 3 are a chunk of two ranks, all others are of one
}

TEST(ReadItems, OneOfTheRanksThatWantRowsOfAChunkReadsAllOfIt) {
  const auto stored = stored_matrix(8, 16, 128);
  for (const int64_t ranks : {2, 4}) {
    std::set<uint64_t> begins;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto items = items_of(stored, {{{0, 8}}, {{16 / ranks * rank, 16 / ranks}}});
      EXPECT_EQ(count_of(items, Kind::Verification), 0);
      for (const auto& item : items) {
        if (item.kind == Kind::Span) {
          EXPECT_EQ(item.bytes, 128u);
          EXPECT_TRUE(begins.insert(item.begin).second) << item.begin << " by two ranks";
        }
      }
    }
    EXPECT_EQ(begins, (std::set<uint64_t>{0, 128, 256, 384}));
  }
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
