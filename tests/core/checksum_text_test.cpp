#include "weft/core/checksum_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace checksum_text_test {

TEST(ChecksumText, HasEightDigits) {
  EXPECT_EQ(checksum_text(0x1f), "0000001f");
  EXPECT_EQ(parse_checksum("0000001f"), 0x1fu);
  EXPECT_EQ(parse_checksum(checksum_text(UINT32_MAX)), UINT32_MAX);
  for (const auto* text : {"", "1f", "0000001F", "0000001g", "00000001f", "-000001f"}) {
    EXPECT_EQ(parse_checksum(text), std::nullopt) << text;
  }
}

} // namespace checksum_text_test

} // namespace weft
