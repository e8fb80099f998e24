#include "weft/core/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {

namespace json_depth_test {

TEST(JsonDepth, IsThatOfOpenListsAndObjects) {
  EXPECT_EQ(too_deep_at("[[1], 2]", 1), 1u);
  EXPECT_EQ(too_deep_at("[[1], 2]", 2), std::nullopt);
  EXPECT_EQ(too_deep_at(R"({"a": [], "b": {"c": []}})", 2), 21u);
  EXPECT_EQ(too_deep_at("", 0), std::nullopt);
}

TEST(JsonDepth, BracketsInStringsDoNotCount) {
  EXPECT_EQ(too_deep_at(R"(["[[[", "\"[[["])", 1), std::nullopt);
  EXPECT_EQ(too_deep_at(R"(["\\", []])", 1), 7u);
  EXPECT_EQ(too_deep_at("[\"[[[", 1), std::nullopt);
}

TEST(JsonDepth, OfALongTextIsFoundWhereItBegins) {
  EXPECT_EQ(too_deep_at(std::string(50000, '[')), 200u);
}

} // namespace json_depth_test

} // namespace weft
