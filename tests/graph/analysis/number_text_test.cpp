#include "weft/graph/analysis/number_text.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace number_text_test {
TEST(NumberText, CountsHaveCommas) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(-1000), "-1,000");
  EXPECT_EQ(count_text(-100), "-100");
  EXPECT_EQ(count_text(1234567), "1,234,567");
}

TEST(NumberText, BytesHaveAUnit) {
  EXPECT_EQ(byte_text(1), "1 byte");
  EXPECT_EQ(byte_text(999), "999 bytes");
  EXPECT_EQ(byte_text(1500), "1.5 KB");
  EXPECT_EQ(byte_text(24'100'000), "24.1 MB");
  EXPECT_EQ(byte_text(241'000'000), "241 MB");
  EXPECT_EQ(byte_text(5'000'000'000'000'000), "5000 TB");
}

} // namespace number_text_test

} // namespace weft::graph
