#include "weft/core/picture.h"

#include <gtest/gtest.h>

namespace weft {

namespace picture_test {
/// The picture without its first line, which repeats the spec.
std::string picture(const std::string& spec) {
  const auto text = draw(*TensorSpec::parse(spec));
  EXPECT_EQ(text.substr(0, spec.size() + 1), spec + "\n");
  return "\n" + text.substr(spec.size() + 1);
}

TEST(Picture, ReplicasAreDrawnNextToEachOther) {
  EXPECT_EQ(picture("f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}"), R"(
         0..15
       ┌───────┐
  0..3 │  0 1  │
       ├───────┤
  4..7 │  2 3  │
       └───────┘
)");
}

TEST(Picture, BothDimsShardedMakeAGrid) {
  EXPECT_EQ(picture("f32[8,16] @ mesh(dp=2,tp=2) {S(0), S(1)}"), R"(
         0..7   8..15
       ┌──────┬───────┐
  0..3 │  0   │   1   │
       ├──────┼───────┤
  4..7 │  2   │   3   │
       └──────┴───────┘
)");
}

TEST(Picture, ReplicatedTensorIsOneCell) {
  EXPECT_EQ(picture("f32[8,16] @ mesh(dp=2,tp=2) {R, R}"), R"(
          0..15
       ┌─────────┐
  0..7 │ 0 1 2 3 │
       └─────────┘
)");
}

TEST(Picture, TermsOfAPartialValueAreJoined) {
  EXPECT_EQ(picture("f32[8] @ mesh(dp=2,tp=2) {S(0), P(sum)}"), R"(
       ┌─────┐
  0..3 │ 0+1 │
       ├─────┤
  4..7 │ 2+3 │
       └─────┘
)");
  EXPECT_EQ(picture("f32[4,6] @ mesh(dp=2,tp=2) {P(max), P(max)}"), R"(
          0..5
       ┌─────────┐
  0..3 │ 0+1+2+3 │
       └─────────┘
)");
}

TEST(Picture, OneDimTensorIsDrawnDownwards) {
  EXPECT_EQ(picture("f32[8] @ mesh(dp=2,tp=2) {S(0), S(0)}"), R"(
       ┌───┐
  0..1 │ 0 │
       ├───┤
  2..3 │ 1 │
       ├───┤
  4..5 │ 2 │
       ├───┤
  6..7 │ 3 │
       └───┘
)");
}

TEST(Picture, TheShardOrderIsVisible) {
  EXPECT_EQ(picture("f32[8] @ mesh(dp=2,tp=2) {S(0)[1], S(0)[0]}"), R"(
       ┌───┐
  0..1 │ 0 │
       ├───┤
  2..3 │ 2 │
       ├───┤
  4..5 │ 1 │
       ├───┤
  6..7 │ 3 │
       └───┘
)");
}

TEST(Picture, AStridedShardGivesARankSeveralBands) {
  EXPECT_EQ(picture("f32[8] @ mesh(dp=2) {SS(0,2)}"), R"(
       ┌───┐
  0..1 │ 0 │
       ├───┤
  2..3 │ 1 │
       ├───┤
  4..5 │ 0 │
       ├───┤
  6..7 │ 1 │
       └───┘
)");
}

TEST(Picture, RanksWithEmptyShardsAreAbsent) {
  EXPECT_EQ(picture("f32[9,2] @ mesh(dp=4) {S(0)}"), R"(
         0..1
       ┌──────┐
  0..2 │  0   │
       ├──────┤
  3..5 │  1   │
       ├──────┤
  6..8 │  2   │
       └──────┘
)");
}

TEST(Picture, ScalarIsOneCell) {
  EXPECT_EQ(picture("f32[] @ mesh(dp=2,tp=2) {P(sum), R}"), R"(
    ┌─────────┐
    │ 0+2 1+3 │
    └─────────┘
)");
}

TEST(Picture, EmptyTensorIsDrawnAsSuch) {
  EXPECT_EQ(picture("f32[0] @ mesh(dp=2) {S(0)}"), R"(
        ┌─────┐
  empty │ 0 1 │
        └─────┘
)");
}

TEST(Picture, OfAThreeDimTensorTheShardedDimsAreDrawn) {
  EXPECT_EQ(picture("f32[4,6,8] @ mesh(dp=2,tp=2) {S(0), S(2)}"), R"(
         0..3   4..7
       ┌──────┬──────┐
  0..1 │  0   │  1   │
       ├──────┼──────┤
  2..3 │  2   │  3   │
       └──────┴──────┘
)");
  EXPECT_EQ(picture("f32[4,6,8] @ mesh(dp=2) {S(2)}"), R"(
         0..3   4..7
       ┌──────┬──────┐
  0..3 │  0   │  1   │
       └──────┴──────┘
)");
}

TEST(Picture, RanksAreThoseOfTheMesh) {
  EXPECT_EQ(picture("f32[2,4] @ mesh(dp=2,tp=2; cuda; ranks=10,3,7,1) {S(1), R}"), R"(
         0..1   2..3
       ┌──────┬──────┐
  0..1 │ 10 3 │ 7 1  │
       └──────┴──────┘
)");
}

TEST(Picture, ShardsOfADimThatIsNotDrawnAreDrawnNextToEachOther) {
  EXPECT_EQ(picture("f32[2,2,2] @ mesh(a=2,b=2,c=2) {S(0), S(1), S(2)}"), R"(
       0     1
    ┌─────┬─────┐
  0 │ 0 1 │ 2 3 │
    ├─────┼─────┤
  1 │ 4 5 │ 6 7 │
    └─────┴─────┘
)");
}

TEST(Picture, AnImageHasOneRectanglePerBlockAndOneColourPerSetOfRanks) {
  const auto count = [](const std::string& text, std::string_view what) {
    int64_t found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  const auto image = draw_svg(*TensorSpec::parse("f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}"));
  EXPECT_EQ(image.substr(0, 4), "<svg");
  EXPECT_EQ(count(image, "<rect"), 2);
  EXPECT_EQ(count(image, "hsl(0,"), 1);
  EXPECT_EQ(count(image, "hsl(137,"), 1);
  EXPECT_EQ(count(image, ">0 1</text>"), 1);
  EXPECT_EQ(count(image, ">4..7</text>"), 1);
  EXPECT_EQ(count(image, ">0..15</text>"), 1);
  EXPECT_EQ(count(draw_svg(*TensorSpec::parse("f32[] @ mesh(tp=2) {P(sum)}")), "<rect"), 1);
}

} // namespace picture_test

} // namespace weft
