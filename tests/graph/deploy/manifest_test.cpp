#include "weft/graph/deploy/manifest.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace manifest_test {
using testing::error_text;
using testing::expect_contains;

constexpr const char* kProgram = R"(program @ mesh(dp=2,tp=2)
symbol s77 = 4 in [2, 1024]
input %w: f32[16,16] {R, S(0)} = parameter "w"
input %x: f32[s77,16] {S(0), R} = user
input %n: int(s3) = user
input 0.5 = user
  %y: f32[s77,16] {S(0), S(1)} = aten::linear(%x, %w)
output %y = user
output None = user
output %n = user)";

TEST(Manifest, IsOfAProgramsUserInputsAndOutputs) {
  const auto manifest = manifest_of(parse_program(kProgram));
  ASSERT_EQ(manifest.inputs.size(), 3u);
  EXPECT_EQ(manifest.inputs[0].name, "x");
  EXPECT_EQ(*manifest.inputs[0].layout, Layout({Shard(0), Replicate()}));
  EXPECT_FALSE(manifest.inputs[2].type);
  ASSERT_EQ(manifest.outputs.size(), 3u);
  EXPECT_EQ(manifest.outputs[2].name, "output_2");
  EXPECT_FALSE(manifest.outputs[1].type);
}

TEST(Manifest, ParsesBackFromItsText) {
  auto manifest = manifest_of(parse_program(kProgram));
  manifest.rank_files = {{"a.pt2", 1, 2}, {"b.pt2", 3, 4}, {"c.pt2", 5, 6}, {"d.pt2", 7, 0xffffffff}};
  const auto parsed = Manifest::parse(manifest.to_json(), "text");
  EXPECT_EQ(parsed.to_json(), manifest.to_json());
  EXPECT_EQ(parsed.rank_files[3].name, "d.pt2");
  EXPECT_EQ(parsed.rank_files[3].bytes, 7u);
  EXPECT_EQ(parsed.rank_files[3].digest, 0xffffffffu);
  EXPECT_EQ(std::get<TensorType>(*parsed.outputs[0].type).sizes[0].to_string(), "s77");
  EXPECT_EQ(std::get<NumberType>(*parsed.inputs[1].type).expression, "s3");
  EXPECT_EQ(parsed.mesh->to_string(), "mesh(dp=2,tp=2)");
}

TEST(Manifest, OfAProgramThatIsNotShardedHasNoMesh) {
  auto manifest = manifest_of(parse_program("program\ninput %x: f32[2] = user\noutput %x = user"));
  EXPECT_FALSE(manifest.mesh);
  manifest.rank_files = {{"model.pt2"}};
  EXPECT_FALSE(Manifest::parse(manifest.to_json(), "text").inputs[0].layout);
}

/// The error of a text, without the common beginning of all errors.
std::string error_of(const std::string& text) {
  auto message = error_text<c10::ValueError>([&] { Manifest::parse(text, "out/weft.json"); });
  const std::string place = "[Manifest] out/weft.json is not what `weft shard` writes: ";
  EXPECT_EQ(message.rfind(place, 0), 0u) << message;
  return message.substr(place.size());
}

std::string with(const std::string& rest) {
  return R"x({"format": "weft sharded program", "version": 2, "mesh": "mesh(tp=2)", )x" + rest + "}";
}
std::string rank(int64_t number, const std::string& file) {
  return c10::str(R"({"rank": )", number, R"(, "file": ")", file, R"(", "bytes": 1, "digest": "00000000"})");
}
std::string ranks(const std::string& first, const std::string& second) {
  return with("\"ranks\": [" + first + ", " + second + R"(], "inputs": [], "outputs": [])");
}

TEST(Manifest, ThatIsNoneSaysSo) {
  EXPECT_EQ(error_of("{}"), "no \"format\": \"weft sharded program\".");
  EXPECT_EQ(error_of(R"({"format": "weft sharded program", "version": 9})"), "version 2 is required, but got 9.");
  const auto inputs = [](const std::string& entry) {
    return with("\"ranks\": [" + rank(0, "a") + ", " + rank(1, "b") + R"(], "outputs": [], "inputs": [)" + entry + "]");
  };
  EXPECT_EQ(error_of(inputs(R"({"name": "x"})")), "x is no tensor, no number and no constant.");
  EXPECT_EQ(
      error_of(inputs(R"({"name": "x", "dtype": "f32", "sizes": [2]})")), "x needs a layout, as there is a mesh.");
  EXPECT_EQ(
      error_of(inputs(R"({"name": "x", "dtype": "f32", "sizes": [2], "layout": "{R, R}"})")),
      "x has the layout {R, R} on mesh(tp=2).");
  expect_contains(
      error_of(inputs(R"({"name": "x", "dtype": "f32", "sizes": [2], "layout": "{S(9)}"})")),
      "x: [Placement] the dim of S(9) must be in [-1, 1)");
  expect_contains(error_of(inputs(R"({"name": "x", "dtype": "f33", "sizes": [2]})")), "x: [parse_dtype] ");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { Manifest::load("/none"); }),
      "[Manifest] a folder that `weft shard` wrote is required, but /none/weft.json cannot be read.");
}

TEST(Manifest, NamesEveryRankOnceWithAFileOfItsOwn) {
  EXPECT_EQ(
      error_of(with("\"ranks\": [" + rank(0, "a") + R"(], "inputs": [], "outputs": [])")),
      "2 ranks are required, but got 1.");
  EXPECT_EQ(error_of(ranks(rank(0, "a"), rank(1, "../b"))), "a file of the same folder is required, but got ../b.");
  EXPECT_EQ(error_of(ranks(rank(0, "a"), rank(1, ".."))), "a file of the same folder is required, but got ...");
  EXPECT_EQ(error_of(ranks(rank(0, "a"), rank(1, "a"))), "a file for each rank is required, but two have a.");
  EXPECT_EQ(error_of(ranks(rank(1, "b"), rank(0, "a"))), "rank 0 is required as entry 0, but got rank 1.");
}

TEST(Manifest, WhateverOfItIsChangedRaises) {
  auto manifest = manifest_of(parse_program(kProgram));
  manifest.rank_files = {{"a.pt2", 1, 2}, {"b.pt2", 3, 4}, {"c.pt2", 5, 6}, {"d.pt2", 7, 8}};
  const auto text = manifest.to_json();
  const std::pair<std::string, std::string> changes[] = {
      {"{S(0), S(1)}", "{S(1), S(0)}"},
      {"\"a.pt2\"", "\"e.pt2\""},
      {"\"bytes\": 7", "\"bytes\": 9"},
      {"\"int\"", "\"float\""},
      {"\"output_2\"", "\"y\""}};
  for (const auto& [from, to] : changes) {
    auto changed = text;
    ASSERT_NE(changed.find(from), std::string::npos) << from << " in " << text;
    changed.replace(changed.find(from), from.size(), to);
    expect_contains(error_of(changed), "is required for what it says, but got ");
  }
}

TEST(Manifest, ThatNestsTooDeepRaises) {
  EXPECT_EQ(
      error_of(std::string(50000, '[')),
      "at most 200 lists and objects inside of each other are required, but at byte 200 are more.");
}

} // namespace manifest_test

} // namespace weft::graph
