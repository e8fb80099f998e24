#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace weft::testing;

TEST(Views, AViewSplitsAndMergesDims) {
  EXPECT_EQ(rule_text("aten::view", {{12, 8}}, {{"size", Ints{3, 4, 8}}}), "([(a b),c])->([a,b,c]) linear*={0}");
  EXPECT_EQ(rule_text("aten::view", {{2, 3, 4}}, {{"size", Ints{6, 4}}}), "([a,b,c])->([(a b),c]) linear*={0}");
  EXPECT_EQ(rule_text("aten::_unsafe_view", {{6}}, {{"size", Ints{2, 3}}}), "([(a b)])->([a,b]) linear*={0}");
}

TEST(Views, ASizeThatIsLeftOpenIsFilledIn) {
  EXPECT_EQ(rule_text("aten::view", {{12, 8}}, {{"size", Ints{3, -1, 8}}}), "([(a b),c])->([a,b,c]) linear*={0}");
  EXPECT_EQ(rule_text("aten::reshape", {{2, 3}}, {{"shape", Ints{-1}}}), "([a,b])->([(a b)]) linear*={0}");
}

TEST(Views, TheArgumentWithTheShapeIsNamed) {
  EXPECT_EQ(RuleCall("aten::view", {{6}}, {{"size", Ints{2, 3}}}).rule()->size_arguments.at(0).name, "size");
  EXPECT_EQ(RuleCall("aten::reshape", {{6}}, {{"shape", Ints{2, 3}}}).rule()->size_arguments.at(0).name, "shape");
  EXPECT_EQ(RuleCall("aten::expand", {{4}}, {{"size", Ints{3, 4}}}).rule()->size_arguments.at(0).name, "size");
  EXPECT_TRUE(RuleCall("aten::t", {{5, 4}}).rule()->size_arguments.empty());
}

TEST(Views, AViewAsAnotherDtypeHasNoRule) {
  EXPECT_EQ(rule_text("aten::view.dtype", {{5, 4}}, {{"dtype", static_cast<int64_t>(at::kInt)}}), "none");
}

TEST(Views, TransposedDimsChangePlaces) {
  EXPECT_EQ(rule_text("aten::t", {{5, 4}}), "([a,b])->([b,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::t", {{5}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(
      rule_text("aten::transpose.int", {{5, 4, 3}}, {{"dim0", 0}, {"dim1", -1}}), "([a,b,c])->([c,b,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::permute", {{2, 3, 4}}, {{"dims", Ints{2, 0, -2}}}), "([a,b,c])->([c,a,b]) linear*={0}");
}

TEST(Views, ANewDimCannotBeCut) {
  EXPECT_EQ(rule_text("aten::unsqueeze", {{5, 4}}, {{"dim", -1}}), "([a,b])->([a,b,-]) linear*={0}");
  EXPECT_EQ(rule_text("aten::unsqueeze", {{5, 4}}, {{"dim", 0}}), "([a,b])->([-,a,b]) linear*={0}");
  EXPECT_EQ(rule_text("aten::expand", {{4}}, {{"size", Ints{3, -1}}}), "([a])->([-,a]) linear*={0}");
}

TEST(Views, OnlyDimsOfOneElementAreSqueezed) {
  const auto squeezed = RuleCall("aten::squeeze", {{5, 1, 4, 1}}).rule();
  EXPECT_EQ(squeezed->outputs[0], Rule::Dims({squeezed->inputs[0][0], squeezed->inputs[0][2]}));
  const auto one = RuleCall("aten::squeeze.dim", {{1, 1, 4}}, {{"dim", -2}}).rule();
  EXPECT_EQ(one->outputs[0], Rule::Dims({one->inputs[0][0], one->inputs[0][2]}));
  EXPECT_EQ(rule_text("aten::squeeze.dim", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b]) linear*={0}");
}

TEST(Views, AnExpandedDimCannotBeCut) {
  const auto rule = RuleCall("aten::expand", {{1, 4}}, {{"size", Ints{3, 4}}}).rule();
  EXPECT_EQ(rule->outputs[0], Rule::Dims({{}, rule->inputs[0][1]}));
}

TEST(Views, TheDimThatIsPickedFromIsWhole) {
  EXPECT_EQ(
      rule_text("aten::select.int", {{5, 4}}, {{"dim", 0}, {"index", 2}}), "([a,b])->([b]) whole={a} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::slice.Tensor", {{5, 4}}, {{"dim", -1}, {"start", 1}, {"end", 3}}),
      "([a,b])->([a,-]) whole={b} linear*={0}");
}

} // namespace
} // namespace weft
