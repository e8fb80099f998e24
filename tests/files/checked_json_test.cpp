#include "weft/files/checked_json.h"

#include "tests/support/error_text.h"
#include "weft/files/crc32c.h"

#include <gtest/gtest.h>

namespace weft {

namespace checked_json_test {

using testing::error_text;
using testing::expect_contains;

uint32_t checksum_of(std::string_view text) {
  return crc32c(text);
}
constexpr CheckedJson::Kind kKind = {"where", "the writer", "a format", 3, &checksum_of};

std::string error_of(const std::string& text) {
  return error_text<c10::ValueError>([&] { CheckedJson(kKind, text, "name"); });
}

TEST(CheckedJson, HasAFormatAVersionAndAChecksum) {
  auto content = CheckedJson::begin(kKind);
  content["x"] = 1;
  auto text = content;
  CheckedJson::add_checksum(kKind, text);
  const CheckedJson read(kKind, text.dump(), "name");
  const auto x_of = [&] { return read.root().at("x").get<int>(); };
  EXPECT_EQ(read.understood(x_of, [&](int) { return content; }), 1);
  content["x"] = 2;
  expect_contains(
      error_text<c10::ValueError>([&] { read.understood(x_of, [&](int) { return content; }); }),
      "[where] name is not what the writer writes: the checksum ");
  const auto y_of = [&] { return read.root().at("y").get<int>(); };
  expect_contains(
      error_text<c10::ValueError>([&] { read.understood(y_of, [&](int) { return content; }); }), "key 'y' not found");
}

TEST(CheckedJson, OfAnotherKindIsAnError) {
  expect_contains(error_of("{"), "[where] name is not what the writer writes: JSON is required, but: ");
  expect_contains(error_of("[]"), "no \"format\": \"a format\"");
  expect_contains(error_of(R"({"format": "a format", "version": 4})"), "version 3 is required, but got 4");
  expect_contains(error_of(std::string(300, '[')), "at most 200 lists and objects inside of each other");
}

} // namespace checked_json_test

} // namespace weft
