#include "weft/graph/pt2/serialized_enums.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace serialized_enums_test {
TEST(SerializedEnums, NumbersAndValuesAreOneToOne) {
  int known = 0;
  for (int64_t number = -1; number < 64; ++number) {
    if (const auto type = scalar_type_of_serialized(number)) {
      EXPECT_EQ(serialized_scalar_type(*type), number);
      ++known;
    }
    if (const auto layout = layout_of_serialized(number)) {
      EXPECT_EQ(serialized_layout(*layout), number);
    }
    if (const auto format = memory_format_of_serialized(number)) {
      EXPECT_EQ(serialized_memory_format(*format), number);
    }
  }
  EXPECT_EQ(known, 21);
}

TEST(SerializedEnums, NumbersAreTheFormatsAndNotTorchs) {
  EXPECT_EQ(scalar_type_of_serialized(7), c10::kFloat);
  EXPECT_EQ(scalar_type_of_serialized(13), c10::kBFloat16);
  EXPECT_EQ(scalar_type_of_serialized(0), std::nullopt);
  EXPECT_EQ(serialized_scalar_type(c10::ScalarType::QInt8), std::nullopt);
  EXPECT_EQ(layout_of_serialized(7), c10::kStrided);
  EXPECT_EQ(memory_format_of_serialized(1), c10::MemoryFormat::Contiguous);
}

} // namespace serialized_enums_test

} // namespace weft::graph
