#include "weft/styles/style.h"
#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace style_test {
using namespace weft::testing;

TEST(Crossing, ItsTextParsesBack) {
  for (const auto* text : {"S(1) -> R", "S(1)", "-> R", "P(sum) -> S(-1)"}) {
    EXPECT_EQ(Crossing::parse(text).to_string(), text);
  }
  EXPECT_EQ(Crossing::parse("S(1)->R"), (Crossing{.from = Shard(1), .to = Replicate()}));
  expect_contains(error_text<c10::ValueError>([] { Crossing::parse("S(1) R"); }), "->");
}

TEST(Style, EachFunctionGivesWhatItsNamePromises) {
  EXPECT_EQ(colwise().outputs, (std::vector<Crossing>{{.to = Shard(-1)}}));
  EXPECT_EQ(colwise({.parts = 3}).outputs, (std::vector<Crossing>{{.to = StridedShard(-1, 3)}}));
  EXPECT_EQ(rowwise({.parts = 2}).outputs, (std::vector<Crossing>{{.to = Replicate()}}));
  EXPECT_EQ(rowwise().outputs, (std::vector<Crossing>{{.to = Replicate()}}));
  EXPECT_EQ(rowwise({.output = Shard(1)}).outputs, (std::vector<Crossing>{{.to = Shard(1)}}));
  EXPECT_EQ(sequence(1).inputs, (std::vector<Crossing>{{.from = Shard(1), .to = Shard(1)}}));
  EXPECT_EQ(to_string(prepare_input_output({}, {}).kind), "input_output");
}

TEST(Style, StylesAreEqualIfAllOptionsAre) {
  EXPECT_EQ(colwise(), colwise());
  EXPECT_NE(colwise(), rowwise());
  EXPECT_NE(colwise(), colwise({.heads = 2}));
  EXPECT_EQ(replicate(), Style());
}

TEST(Style, ItsTextIsThatOfPlanFiles) {
  EXPECT_EQ(rowwise({.output = Shard(1)}).to_string(), R"x({"output":"S(1)","style":"rowwise"})x");
}

TEST(Style, CountsMustBePositive) {
  EXPECT_EQ(error_text<c10::ValueError>([] { colwise({.heads = 0}); }), "[colwise] heads must be positive, but got 0.");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { colwise({.parts = -1}); }), "[colwise] parts must be positive, but got -1.");
  EXPECT_EQ(error_text<c10::ValueError>([] { rowwise({.parts = 0}); }), "[rowwise] parts must be positive, but got 0.");
}

} // namespace style_test

} // namespace weft::nn
