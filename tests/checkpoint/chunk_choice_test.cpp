#include "weft/checkpoint/chunk_choice.h"

#include "weft/core/dense_strides.h"

#include <gtest/gtest.h>

namespace weft {

namespace chunk_choice_test {

/// A matrix in one part, whose elements have these strides in a range of the file with checksums of chunks of so many bytes.
StoredTensor stored_matrix(
    const c10::DimVector& sizes,
    const c10::DimVector& strides,
    uint64_t begin,
    uint64_t range_bytes,
    uint64_t chunk_bytes) {
  ChunkChecksums checksums{.begin = 0, .bytes = range_bytes, .chunk_bytes = chunk_bytes};
  checksums.values.assign((range_bytes + chunk_bytes - 1) / chunk_bytes, 0);
  StoredTensor stored{.dtype = at::kFloat, .sizes = sizes};
  stored.parts.push_back(
      {.begin = begin,
       .index = full_block(sizes),
       .strides = strides,
       .checksums = std::make_shared<const ChunkChecksums>(checksums)});
  return stored;
}

/// How many of the ranks that read columns, each held by so many replicas, verify each chunk.
std::vector<int64_t> choices(const StoredTensor& stored, int64_t ranks, int64_t replicas) {
  std::vector<int64_t> counts(stored.parts[0].checksums->values.size(), 0);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (int64_t replica = 0; replica < replicas; ++replica) {
      ReadTarget target{
          .stored = &stored, .wanted = full_block(stored.sizes), .replica = replica, .replicas = replicas};
      target.wanted[1] = {chunk(stored.sizes[1], ranks, rank)};
      ChunkChoice choice(target, 0);
      for (size_t n = 0; n < counts.size(); ++n) {
        counts[n] += choice.is_chosen(n) ? 1 : 0;
      }
    }
  }
  return counts;
}

TEST(ChunkChoice, OneRankVerifiesAChunk) {
  for (const uint64_t chunk_bytes : {16, 80, 1024, 8192}) {
    const auto stored = stored_matrix({64, 24}, dense_strides({64, 24}), 0, 6144, chunk_bytes);
    for (const int64_t ranks : {1, 2, 3, 4}) {
      for (const int64_t replicas : {1, 2}) {
        EXPECT_EQ(choices(stored, ranks, replicas), std::vector<int64_t>((6144 + chunk_bytes - 1) / chunk_bytes, 1));
      }
    }
  }
}

TEST(ChunkChoice, RanksVerifyEquallyMuch) {
  const auto stored = stored_matrix({64, 24}, dense_strides({64, 24}), 0, 6144, 64);
  ReadTarget target{.stored = &stored, .wanted = full_block(stored.sizes)};
  for (int64_t rank = 0; rank < 4; ++rank) {
    target.wanted[1] = {chunk(24, 4, rank)};
    ChunkChoice choice(target, 0);
    int64_t count = 0;
    for (uint64_t n = 0; n < 96; ++n) {
      count += choice.is_chosen(n) ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(count), 24, 3) << rank;
  }
}

/// A key map may take a part of a stored tensor, whose chunks have other elements too, or transpose it.
TEST(ChunkChoice, OnlyChunksWithElementsAreVerified) {
  // The columns 4 to 8 of a transposed matrix of 16 rows and 32 columns: rows of the file.
  const auto transposed = stored_matrix({16, 4}, {1, 16}, 4 * 64, 2048, 64);
  std::vector<int64_t> expected(32, 0);
  std::fill(expected.begin() + 4, expected.begin() + 8, 1);
  EXPECT_EQ(choices(transposed, 2, 1), expected);
  // The columns 8 to 16 of a matrix of 16 rows and 32 columns, half a row a chunk.
  const auto narrowed = stored_matrix({16, 8}, {32, 1}, 32, 2048, 64);
  for (size_t n = 0; n < 32; ++n) {
    expected[n] = n % 2 == 0 ? 1 : 0;
  }
  EXPECT_EQ(choices(narrowed, 2, 2), expected);
}

} // namespace chunk_choice_test

} // namespace weft
