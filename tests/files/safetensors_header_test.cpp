#include "weft/files/safetensors_header.h"

#include "tests/support/error_text.h"
#include "tests/support/file_mutation.h"

#include <gtest/gtest.h>

#include <fstream>

namespace weft {

namespace safetensors_header_test {

using testing::error_text;
using testing::expect_contains;

std::vector<SafetensorsEntry> two_entries() {
  return {{"a", at::kFloat, {2, 3}, 0, 24}, {"b", at::kBFloat16, {5}, 0, 10}};
}

TEST(SafetensorsHeader, SaysWhereTensorsAre) {
  auto entries = two_entries();
  const auto start = make_safetensors_header(entries, {{"format", "pt"}}, "test");
  EXPECT_EQ(start.size() % 8, 0u);
  EXPECT_EQ(entries[0].begin, start.size());
  EXPECT_EQ(entries[1].begin, start.size() + 24);
  const auto read = parse_safetensors_header(start, start.size() + 34, "test", "f");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].name, "a");
  EXPECT_EQ(read[1].begin, entries[1].begin);
  EXPECT_EQ(read[1].bytes, 10u);
  EXPECT_EQ(read[1].sizes, std::vector<int64_t>{5});
  EXPECT_EQ(read[1].dtype, at::kBFloat16);
}

TEST(SafetensorsHeader, IsReadWithoutTheData) {
  const auto path = ::testing::TempDir() + "weft_safetensors_header_test.safetensors";
  auto entries = two_entries();
  const auto start = make_safetensors_header(entries, {}, "test");
  std::ofstream(path, std::ios::binary) << start << std::string(34, 'x');
  EXPECT_EQ(read_safetensors_header(path, "test").size(), 2u);
  std::ofstream(path, std::ios::binary) << start << std::string(33, 'x');
  expect_contains(
      error_text<c10::ValueError>([&] { read_safetensors_header(path, "test"); }),
      "[test] " + path + ": tensor \"b\" is said to be bytes 24 to 34, but there are 33.");
  std::ofstream(path, std::ios::binary) << start.substr(0, 20);
  expect_contains(error_text<c10::ValueError>([&] { read_safetensors_header(path, "test"); }), "bytes long");
  std::ofstream(path, std::ios::binary) << "";
  expect_contains(error_text<c10::ValueError>([&] { read_safetensors_header(path, "test"); }), "it has 0 bytes");
}

TEST(SafetensorsHeader, ThatWasChangedAnywhereIsAnErrorOrInsideOfItsFile) {
  auto entries = two_entries();
  const auto file = make_safetensors_header(entries, {}, "test") + std::string(34, 'x');
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    testing::FileMutation mutation(seed);
    const auto changed = mutation.bytes(file);
    try {
      for (const auto& entry : parse_safetensors_header(changed, changed.size(), "test", "f")) {
        EXPECT_LE(entry.begin + entry.bytes, changed.size());
      }
    } catch (const c10::Error& error) {
      expect_contains(error.what_without_backtrace(), "[test] f: ");
    }
  }
}

TEST(SafetensorsHeader, ATensorOfADtypeThatTorchLacksCanBeSkipped) {
  const auto path = ::testing::TempDir() + "weft_safetensors_header_f4.safetensors";
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F4","shape":[6],"data_offsets":[4,7]}})";
  std::ofstream(path, std::ios::binary) << static_cast<char>(header.size()) << std::string(7, '\0') << header
                                        << "1234567";
  const auto entries = read_safetensors_header(path, "test", /*allows_unknown_dtypes=*/true);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].dtype, at::kFloat);
  EXPECT_EQ(entries[1].dtype, c10::ScalarType::Undefined);
  EXPECT_EQ(entries[1].unknown_dtype, "F4");
  expect_contains(
      error_text<c10::ValueError>([&] { read_safetensors_header(path, "test"); }),
      "tensor \"b\" has the unknown dtype \"F4\".");
}

TEST(SafetensorsHeader, KnowsTheDtypesOfTheFormat) {
  EXPECT_TRUE(has_safetensors_dtype(at::kFloat8_e8m0fnu));
  EXPECT_TRUE(has_safetensors_dtype(at::kFloat8_e4m3fn));
  EXPECT_FALSE(has_safetensors_dtype(at::kComplexDouble));
  std::vector<SafetensorsEntry> entries = {{"z", at::kComplexDouble, {1}, 0, 16}};
  expect_contains(
      error_text<c10::TypeError>([&] { make_safetensors_header(entries, {}, "test"); }),
      "[test] tensor \"z\" is of a dtype that the format does not have: ComplexDouble.");
}

} // namespace safetensors_header_test

} // namespace weft
