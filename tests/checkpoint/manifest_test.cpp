#include "weft/checkpoint/manifest.h"

#include "tests/support/error_text.h"
#include "tests/support/file_mutation.h"
#include "weft/checkpoint/read_plan.h"
#include "weft/files/crc32c.h"

#include <gtest/gtest.h>

#include <regex>

namespace weft {

namespace manifest_test {

using testing::error_text;
using testing::expect_contains;

StoredTensors two_parts() {
  StoredTensors stored{
      .folder = "f", .files = {{"a.safetensors", 64}, {"b.safetensors", 32}}, .tensors = {}, .values = {}};
  StoredTensor tensor{.dtype = at::kFloat, .sizes = {4, 2}, .parts = {}};
  tensor.parts.push_back({0, 16, {{{0, 1}, {2, 1}}, {{0, 2}}}, {2, 1}, 7});
  tensor.parts.push_back({1, 8, {{{1, 1}, {3, 1}}, {{0, 2}}}, {2, 1}, std::nullopt});
  stored.tensors["w"] = tensor;
  stored.values = {{"step", "7"}, {"lr", "[0.1,{\"float\":\"nan\"}]"}};
  return stored;
}

TEST(Manifest, ComesBackAsItWas) {
  const auto read = parse_manifest(manifest_text(two_parts(), 12), "f", "m");
  EXPECT_EQ(read.saved, 12);
  EXPECT_EQ(read.stored.values, two_parts().values);
  EXPECT_EQ(read.stored.path_of(1), "f/b.safetensors");
  const auto& parts = read.stored.tensors.at("w").parts;
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].index[0], (Runs{{0, 1}, {2, 1}}));
  EXPECT_EQ(parts[0].strides, c10::DimVector({2, 1}));
  EXPECT_EQ(parts[0].checksum, 7u);
  EXPECT_EQ(parts[1].begin, 8u);
  EXPECT_EQ(parts[1].checksum, std::nullopt);
}

std::string error_of(const std::string& pattern, const std::string& replacement) {
  const auto text = manifest_text(two_parts(), 12);
  const auto changed =
      std::regex_replace(text, std::regex(pattern), replacement, std::regex_constants::format_first_only);
  EXPECT_NE(text, changed) << pattern;
  const auto error = error_text<c10::ValueError>([&] { parse_manifest(changed, "f", "m"); });
  EXPECT_EQ(error.rfind("[checkpoint] m is not what weft::save writes: ", 0), 0u) << error;
  return error;
}

TEST(Manifest, NamesNoFileOutsideOfItsFolder) {
  for (const auto* name : {"../a", "/etc/passwd", "x/a", "..", ".", ""}) {
    expect_contains(
        error_of("a.safetensors", name), c10::str("a file of the same folder is required, but got \"", name, "\""));
  }
}

TEST(Manifest, SaysWhatIsWrongWithIt) {
  expect_contains(error_of("weft checkpoint", "other"), "no \"format\"");
  expect_contains(error_of("\"version\":1", "\"version\":9"), "version 1 is required, but got 9");
  expect_contains(error_of("f32", "f31"), "tensor \"w\" has the unknown dtype");
  expect_contains(error_of("\"0:1,2:3\"", "\"0:1,2:9\""), "has a part with the index \"0:1,2:9\"");
  expect_contains(error_of("\"0:1,2:3\"", "\"2:3,0:1\""), "has a part with the index");
  expect_contains(error_of("\"0:1,2:3\"", "\"0:1\""), "has 8 elements, but its parts have 6");
  expect_contains(error_of("\"0:1,2:3\"", "\"0:4\""), "has parts with more elements than itself");
  expect_contains(error_of("\"begin\":16", "\"begin\":56"), "has a part that is not inside of its file");
  expect_contains(error_of("\"file\":1", "\"file\":2"), "is in a file that there is not");
  expect_contains(error_of("\\[4,2\\]", "[4,9223372036854775807]"), "has more elements than a tensor can have");
  expect_contains(error_of("\"step\":7", "\"step\":8"), "the checksum ");
  expect_contains(error_of("\"values\"", "\"volues\""), "values");
  expect_contains(error_of("\\{", "["), "JSON is required");
}

TEST(Manifest, ThatWasChangedAnywhereIsAnErrorOrCanBePlanned) {
  const auto text = manifest_text(two_parts(), 12);
  const char* count = std::getenv("WEFT_MUTATIONS");
  for (int64_t seed = 0; seed < (count == nullptr ? 1000 : std::stoll(count)); ++seed) {
    testing::FileMutation mutation(static_cast<uint64_t>(seed));
    const auto changed = seed % 2 == 0 ? mutation.json(text) : mutation.bytes(text);
    try {
      const auto read = parse_manifest(changed, "f", "m");
      for (const auto& [name, tensor] : read.stored.tensors) {
        plan_reads(tensor, whole_block(tensor.sizes));
      }
    } catch (const c10::Error& error) {
      expect_contains(error.what_without_backtrace(), "[checkpoint] m is not what weft::save writes: ");
    }
  }
}

TEST(Manifest, OfAFolderWithoutOneSaysSo) {
  expect_contains(
      error_text<c10::ValueError>([] { load_manifest("/no/such", "load"); }),
      "[load] a folder that weft::save wrote is required, but /no/such/checkpoint.json does not exist.");
}

} // namespace manifest_test

} // namespace weft
