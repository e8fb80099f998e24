#include "weft/styles/style_json.h"
#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace style_json_test {
using namespace weft::testing;
using nlohmann::json;

Style read(const char* text) {
  return style_from_json("here", json::parse(text));
}

TEST(StyleJson, WhatIsWrittenReadsBack) {
  Style with_keywords = prepare_input({{.from = Shard(1), .to = Replicate()}, {}}, /*local_inputs=*/true);
  with_keywords.keyword_inputs = {{"mask", {.from = Replicate()}}};
  for (const auto& style :
       {colwise(), colwise({.input = Shard(1), .output = Replicate(), .local_output = true, .heads = 8, .parts = 3}),
        rowwise({.output = Shard(1)}), sequence(), sequence(2, true), with_keywords,
        prepare_output({{.from = Partial(), .to = Shard(1)}}, true),
        prepare_input_output({{.to = Replicate()}}, {{.to = Shard(0)}}), shard_parameter(), shard_parameter(-1, 2),
        rowwise({.parts = 2}), colwise({.parts = Parts({8, 2, 2})}), shard_parameter(1, Parts({2, 1})), replicate()}) {
    EXPECT_EQ(style_from_json("here", to_json(style)), style) << style.to_string();
  }
}

TEST(StyleJson, ANameAloneIsAStyleWithItsDefaults) {
  EXPECT_EQ(read(R"("colwise")"), colwise());
  EXPECT_EQ(read(R"({"style": "sequence"})"), sequence(1));
}

TEST(StyleJson, PartsAreANumberOrSizes) {
  EXPECT_EQ(read(R"({"style": "colwise", "parts": [8, 2, 2]})").outputs[0].to, StridedShard(-1, {4, 1, 1}));
  EXPECT_EQ(read(R"({"style": "colwise", "parts": [4, 4, 4]})"), colwise({.parts = 3}));
  EXPECT_EQ(
      error_text<c10::ValueError>([] { read(R"({"style": "colwise", "parts": [8, 2, 2], "heads": 12})"); }),
      "[here] [colwise] parts of different sizes are numbers of heads, so that heads must not be given too, but got "
      "heads 12.");
  EXPECT_THROW(read(R"({"style": "colwise", "parts": []})"), c10::ValueError);
  EXPECT_THROW(read(R"({"style": "colwise", "parts": [1, -2]})"), c10::ValueError);
  EXPECT_THROW(read(R"({"style": "colwise", "parts": [1, "two"]})"), c10::ValueError);
}

TEST(StyleJson, TheNamesOfTransformersAreStyles) {
  EXPECT_EQ(read(R"("colwise_gather_output")"), colwise({.output = Replicate()}));
  EXPECT_EQ(read(R"("packed_rowwise")"), rowwise({.parts = 2}));
}

TEST(StyleJson, ErrorsSayWhereAndWhatThereIs) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { read(R"("columns")"); }),
      "[here] \"style\" must be one of colwise, input, input_output, output, replicate, rowwise, sequence, shard, "
      "but got \"columns\".");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { read(R"({"style": "sequence", "dims": 1})"); }),
      "[here] an option of this style is required, one of dim, local_output, style, but got dims.");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { read(R"({"style": "colwise", "heads": "many"})"); }),
      "[here] option heads has a value of the wrong type: \"many\".");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { read("[1]"); }),
      "[here] the name of a style or an object with one is required, but got [1].");
  expect_contains(error_text<c10::ValueError>([] { read(R"x({"style": "colwise", "output": "T(0)"})x"); }), "T(0)");
}

} // namespace style_json_test

} // namespace weft::nn
