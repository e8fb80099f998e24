#include "weft/checkpoint/manifest.h"

#include "tests/support/error_text.h"
#include "tests/support/file_mutation.h"
#include "weft/checkpoint/read_plan.h"
#include "weft/core/checksum_text.h"
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
  const ChunkChecksums checksums{16, 16, 1 << 16, {7}};
  tensor.parts.push_back(
      {0, 16, {{{0, 1}, {2, 1}}, {{0, 2}}}, {2, 1}, std::make_shared<const ChunkChecksums>(checksums)});
  tensor.parts.push_back({1, 8, {{{1, 1}, {3, 1}}, {{0, 2}}}, {2, 1}, nullptr});
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
  EXPECT_EQ(parts[0].checksums->values, std::vector<uint32_t>{7});
  EXPECT_EQ(parts[0].checksums->begin, 16u);
  EXPECT_EQ(parts[0].checksums->chunk_bytes, uint64_t{1} << 16);
  EXPECT_EQ(parts[1].begin, 8u);
  EXPECT_EQ(parts[1].checksums, nullptr);
}

TEST(Manifest, IsOneLineOfJsonWithItsChecksum) {
  auto stored = two_parts();
  stored.tensors["\"quoted\"\n\u00e9"] = {.dtype = at::kLong, .sizes = {0}, .parts = {}};
  const std::string content = R"({"format":"weft checkpoint","version":1,"saved":12,)"
                              R"("files":[{"name":"a.safetensors","bytes":64},{"name":"b.safetensors","bytes":32}],)"
                              R"("tensors":{"\"quoted\"\né":{"dtype":"i64","shape":[0],"parts":[]},)"
                              R"("w":{"dtype":"f32","shape":[4,2],"parts":[)"
                              R"({"file":0,"begin":16,"index":["0:1,2:3","0:2"],"chunk":65536,"crc32c":["00000007"]},)"
                              R"({"file":1,"begin":8,"index":["1:2,3:4","0:2"]}]}},)"
                              R"("values":{"lr":[0.1,{"float":"nan"}],"step":7}})";
  const auto checksum = checksum_text(crc32c(content));
  const auto expected = content.substr(0, content.size() - 1) + ",\"checksum\":\"" + checksum + "\"}\n";
  EXPECT_EQ(manifest_text(stored, 12), expected);
  EXPECT_EQ(parse_manifest(expected, "f", "m").stored.tensors.size(), 2u);
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
  expect_contains(error_of("1:2,3:4", "0:1,2:3"), "has parts that have some of its elements twice");
  expect_contains(error_of("1:2,3:4", "1:3"), "has parts that have some of its elements twice");
  expect_contains(error_of("00000007", "0000007"), "has a checksum that is not eight hexadecimal digits");
  expect_contains(error_of("\"00000007\"", "\"00000007\",\"00000008\""), "has a part of 1 chunks with 2 checksums");
  expect_contains(error_of("65536", "0"), "has checksums of chunks that do not end with an element");
  expect_contains(error_of("65536", "8"), "has checksums of chunks that do not end with an element");
  expect_contains(error_of("65536", "18446744073709551600"), "has checksums of chunks that do not end with an element");
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
        plan_reads(tensor, full_block(tensor.sizes));
      }
    } catch (const c10::Error& error) {
      expect_contains(error.what_without_backtrace(), "[checkpoint] m is not what weft::save writes: ");
    }
  }
}

/// A matrix that a grid of ranks has saved, each rank a tile.
StoredTensor tiled(int64_t rows, int64_t columns) {
  StoredTensor tensor{.dtype = at::kByte, .sizes = {rows, columns}, .parts = {}};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      tensor.parts.push_back({0, static_cast<uint64_t>(i * columns + j), {{{i, 1}}, {{j, 1}}}, {1, 1}, nullptr});
    }
  }
  return tensor;
}

TEST(Manifest, PartsOfAThousandRanksAreFoundToHaveEveryElementOnce) {
  StoredTensors stored{.folder = "f", .files = {{"a.safetensors", 1000}}, .tensors = {}, .values = {}};
  stored.tensors["w"] = tiled(40, 25);
  EXPECT_EQ(parse_manifest(manifest_text(stored, 1), "f", "m").stored.tensors.at("w").parts.size(), 1000u);
  for (const size_t changed : {0, 17, 999}) {
    auto wrong = stored;
    auto& index = wrong.tensors["w"].parts[changed].index;
    index[0][0].begin = (index[0][0].begin + 1) % 40;
    expect_contains(
        error_text<c10::ValueError>([&] { parse_manifest(manifest_text(wrong, 1), "f", "m"); }),
        "tensor \"w\" has parts that have some of its elements twice, and others not");
  }
}

TEST(Manifest, OfALargeTensorWithoutElementsIsRead) {
  StoredTensors stored{.folder = "f", .files = {{"a.safetensors", 8}}, .tensors = {}, .values = {}};
  constexpr auto kLarge = int64_t{1} << 61;
  StoredTensor tensor{.dtype = at::kByte, .sizes = {0, kLarge, kLarge}, .parts = {}};
  tensor.parts.push_back({0, 0, full_block(tensor.sizes), {1, 1, 1}, nullptr});
  stored.tensors["w"] = tensor;
  const auto read = parse_manifest(manifest_text(stored, 1), "f", "m");
  EXPECT_EQ(block_numel(read.stored.tensors.at("w").parts[0].index), 0);
  EXPECT_EQ(block_numel({{{0, kLarge}}, {{0, kLarge}}, {{0, 0}}}), 0);
}

TEST(Manifest, OfAFolderWithoutOneSaysSo) {
  expect_contains(
      error_text<c10::ValueError>([] { load_manifest("/no/such", "load"); }),
      "[load] a folder that weft::save wrote is required, but /no/such/checkpoint.json does not exist.");
}

} // namespace manifest_test

} // namespace weft
