#include "weft/overlap/overlap_mode.h"
#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace overlap_mode_test {
using testing::error_text;

TEST(OverlapMode, TextsParseBack) {
  for (const auto mode : {OverlapMode::Auto, OverlapMode::Off, OverlapMode::Force}) {
    EXPECT_EQ(parse_overlap_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(
      error_text<c10::ValueError>([] { parse_overlap_mode("on"); }),
      "[overlap] one of 'auto', 'off' and 'force' is required, but got 'on'.");
}

} // namespace overlap_mode_test

} // namespace weft
