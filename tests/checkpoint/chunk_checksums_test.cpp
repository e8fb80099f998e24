#include "weft/checkpoint/chunk_checksums.h"

#include "weft/files/crc32c.h"

#include <gtest/gtest.h>

namespace weft {

namespace chunk_checksums_test {

TEST(ChunkChecksums, ARangeIsDividedWhereChunksEnd) {
  const ChunkChecksums chunks{.begin = 100, .bytes = 1000, .chunk_bytes = 64};
  std::string text;
  for_each_chunk(chunks, 150, 300, [&](uint64_t number, uint64_t begin, uint64_t end) {
    text += c10::str(number, ": ", begin, "-", end, "; ");
  });
  EXPECT_EQ(text, "0: 150-164; 1: 164-228; 2: 228-292; 3: 292-300; ");
  for_each_chunk(chunks, 150, 150, [](uint64_t, uint64_t, uint64_t) { ADD_FAILURE(); });
}

TEST(ChunkChecksums, AreThoseOfTheChunksWhereverTheBytesAreDivided) {
  const ChunkChecksums chunks{.begin = 10, .bytes = 300, .chunk_bytes = 64};
  std::string file(310, '\0');
  for (size_t i = 0; i < file.size(); ++i) {
    file[i] = static_cast<char>(i * 37);
  }
  for (uint64_t step = 1; step <= 200; ++step) {
    std::vector<uint32_t> checksums;
    for (uint64_t at = 74; at < 310; at += step) { // from the second chunk on
      add_checksums(chunks, 74, at, std::string_view(file).substr(at, std::min(step, 310 - at)), checksums);
    }
    ASSERT_EQ(checksums.size(), 4u);
    for (size_t i = 0; i < checksums.size(); ++i) {
      EXPECT_EQ(checksums[i], crc32c(std::string_view(file).substr(74 + 64 * i, 64))) << step;
    }
  }
}

} // namespace chunk_checksums_test

} // namespace weft
