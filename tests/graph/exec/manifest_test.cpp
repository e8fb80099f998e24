#include "weft/graph/exec/manifest.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace manifest_test {
using testing::error_text;

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
  manifest.rank_files = {"a.pt2", "b.pt2", "c.pt2", "d.pt2"};
  const auto parsed = Manifest::parse(manifest.to_json(), "text");
  EXPECT_EQ(parsed.to_json(), manifest.to_json());
  EXPECT_EQ(std::get<TensorType>(*parsed.outputs[0].type).sizes[0].to_string(), "s77");
  EXPECT_EQ(std::get<NumberType>(*parsed.inputs[1].type).expression, "s3");
  EXPECT_EQ(parsed.mesh->to_string(), "mesh(dp=2,tp=2)");
}

TEST(Manifest, OfAProgramThatIsNotShardedHasNoMesh) {
  auto manifest = manifest_of(parse_program("program\ninput %x: f32[2] = user\noutput %x = user"));
  EXPECT_FALSE(manifest.mesh);
  manifest.rank_files = {"model.pt2"};
  EXPECT_FALSE(Manifest::parse(manifest.to_json(), "text").inputs[0].layout);
}

TEST(Manifest, ThatIsNoneSaysSo) {
  const auto error = [](const std::string& text) {
    auto message = error_text<c10::ValueError>([&] { Manifest::parse(text, "out/weft.json"); });
    const std::string place = "[Manifest] out/weft.json is not what `weft shard` writes: ";
    EXPECT_EQ(message.rfind(place, 0), 0u) << message;
    return message.substr(place.size());
  };
  EXPECT_EQ(error("{}"), "no \"format\": \"weft sharded program\".");
  const std::string head = R"({"format": "weft sharded program", )";
  EXPECT_EQ(error(head + R"("version": 9})"), "version 1 is required, but got 9.");
  const auto with = [&](const std::string& rest) {
    return head + R"x("version": 1, "mesh": "mesh(tp=2)", )x" + rest + "}";
  };
  EXPECT_EQ(error(with(R"("ranks": ["a"], "inputs": [], "outputs": [])")), "2 ranks are required, but got 1.");
  EXPECT_EQ(
      error(with(R"("ranks": ["a", "../b"], "inputs": [], "outputs": [])")),
      "a file of the same folder is required, but got ../b.");
  const std::string ranks = R"("ranks": ["a", "b"], "outputs": [], "inputs": )";
  EXPECT_EQ(error(with(ranks + R"([{"name": "x"}])")), "x is no tensor, no number and no constant.");
  EXPECT_EQ(
      error(with(ranks + R"([{"name": "x", "dtype": "f32", "sizes": [2]}])")), "x needs a layout, as there is a mesh.");
  EXPECT_EQ(
      error(with(ranks + R"([{"name": "x", "dtype": "f32", "sizes": [2], "layout": "{R, R}"}])")),
      "x lies as {R, R} on mesh(tp=2).");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { Manifest::load("/none"); }),
      "[Manifest] a folder that `weft shard` wrote is required, but /none/weft.json cannot be read.");
}

} // namespace manifest_test

} // namespace weft::graph
