#include "weft/graph/pt2/crc32.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::graph {

namespace crc32_test {

std::string text_of(size_t size) {
  std::string text(size, '\0');
  uint32_t state = 1;
  for (auto& letter : text) {
    state = state * 1664525 + 1013904223;
    letter = static_cast<char>(state >> 24);
  }
  return text;
}

/// Computes the checksum bit by bit, as its definition says.
uint32_t slow_crc32(std::string_view bytes) {
  auto value = ~uint32_t{0};
  for (const char byte : bytes) {
    value ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320 : value >> 1;
    }
  }
  return ~value;
}

TEST(Crc32, IsTheOneOfZipFiles) {
  EXPECT_EQ(crc32(""), 0u);
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);
  EXPECT_EQ(crc32("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
}

TEST(Crc32, OfAnyLengthIsWhatTheDefinitionGives) {
  for (size_t size = 0; size < 70; ++size) {
    const auto text = text_of(size);
    EXPECT_EQ(crc32(text), slow_crc32(text)) << size;
  }
  const auto text = text_of((size_t{9} << 20) + 5); // several chunks, the last one short
  EXPECT_EQ(crc32(text), slow_crc32(text));
}

TEST(Crc32, OfTwoTextsIsJoined) {
  const auto text = text_of(1000);
  for (const size_t middle : {0, 1, 17, 999, 1000}) {
    const auto first = crc32(std::string_view(text).substr(0, middle));
    const auto second = crc32(std::string_view(text).substr(middle));
    EXPECT_EQ(joined_crc32(first, second, text.size() - middle), crc32(text)) << middle;
  }
}

} // namespace crc32_test

} // namespace weft::graph
