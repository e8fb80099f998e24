#include "weft/files/crc32c.h"

#include <gtest/gtest.h>

#include <random>

namespace weft {

namespace crc32c_test {

/// By definition, bit by bit.
uint32_t by_definition(const std::string& bytes) {
  uint32_t value = ~uint32_t{0};
  for (const unsigned char byte : bytes) {
    value ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? value >> 1 ^ 0x82f63b78 : value >> 1;
    }
  }
  return ~value;
}

std::string random_bytes(size_t size) {
  std::mt19937 random(static_cast<uint32_t>(size));
  std::string bytes(size, '\0');
  for (auto& byte : bytes) {
    byte = static_cast<char>(random());
  }
  return bytes;
}

TEST(Crc32c, IsTheOneOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, IsTheDefinitionForAnyLength) {
  for (const size_t size : {1, 7, 8, 9, 100, 8192, 3 * 8192 - 1, 3 * 8192, 3 * 8192 + 17, 70000}) {
    const auto bytes = random_bytes(size);
    EXPECT_EQ(crc32c(bytes), by_definition(bytes)) << size;
  }
}

TEST(Crc32c, OfTwoTextsIsJoinedOrContinued) {
  const auto bytes = random_bytes(50000);
  for (const size_t cut : {0, 1, 4096, 49999, 50000}) {
    const auto first = crc32c(std::string_view(bytes).substr(0, cut));
    const auto rest = std::string_view(bytes).substr(cut);
    EXPECT_EQ(crc32c(rest, first), crc32c(bytes));
    EXPECT_EQ(joined_crc32c(first, crc32c(rest), rest.size()), crc32c(bytes));
  }
}

} // namespace crc32c_test

} // namespace weft
