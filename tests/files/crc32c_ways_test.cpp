#include "weft/files/crc32c_ways.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace weft {

namespace crc32c_ways_test {

/// By definition, bit by bit.
uint32_t state_after(uint32_t state, const char* at, const char* end) {
  for (; at != end; ++at) {
    state ^= static_cast<unsigned char>(*at);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state & 1) != 0 ? state >> 1 ^ 0x82f63b78 : state >> 1;
    }
  }
  return state;
}

std::string random_bytes(size_t size) {
  std::mt19937 random(7);
  std::string bytes(size, '\0');
  for (auto& byte : bytes) {
    byte = static_cast<char>(random());
  }
  return bytes;
}

TEST(Crc32cWays, AreTheDefinitionForAnyLength) {
  const auto bytes = random_bytes(3000);
  uint32_t expected = 0x12345678;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    for (const auto& way : crc32c_ways()) {
      ASSERT_EQ(way.advance(0x12345678, bytes.data(), bytes.data() + size), expected) << way.name << ", " << size;
    }
    expected = state_after(expected, bytes.data() + size, bytes.data() + std::min(size + 1, bytes.size()));
  }
}

TEST(Crc32cWays, AreTheDefinitionForAnyAlignmentAndLargeTexts) {
  const auto bytes = random_bytes(200'000);
  for (size_t from = 0; from < 130; from += 3) {
    for (const size_t size : {512, 575, 8191, 24'576, 24'577, 65'536, 150'001}) {
      const auto* begin = bytes.data() + from;
      const auto expected = state_after(~uint32_t{0}, begin, begin + size);
      for (const auto& way : crc32c_ways()) {
        ASSERT_EQ(way.advance(~uint32_t{0}, begin, begin + size), expected)
            << way.name << ", " << size << " from " << from;
      }
    }
  }
}

TEST(Crc32cWays, ContinueEachOther) {
  const auto bytes = random_bytes(4000);
  const auto* end = bytes.data() + bytes.size();
  const auto expected = state_after(1, bytes.data(), end);
  for (const auto& first : crc32c_ways()) {
    for (const auto& second : crc32c_ways()) {
      for (size_t cut = 0; cut <= bytes.size(); cut += 37) {
        const auto state = first.advance(1, bytes.data(), bytes.data() + cut);
        ASSERT_EQ(second.advance(state, bytes.data() + cut, end), expected) << first.name << ", " << second.name;
      }
    }
  }
}

TEST(Crc32cWays, EndWithTheOneThatEveryProcessorHas) {
  EXPECT_STREQ(crc32c_ways().back().name, "table");
}

} // namespace crc32c_ways_test

} // namespace weft
