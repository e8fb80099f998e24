#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace weft::testing;

TEST(Reductions, ASumOfPartsIsASum) {
  EXPECT_EQ(rule_text("aten::sum", {{5, 4}}), "([a,b])->([]) sum={a,b} linear={0}");
  EXPECT_EQ(rule_text("aten::sum.dim_IntList", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) sum={b} linear={0}");
  EXPECT_EQ(
      rule_text("aten::sum.dim_IntList", {{5, 4, 3}}, {{"dim", Ints{0, -1}}, {"keepdim", true}}),
      "([a,b,c])->([-,b,-]) sum={a,c} linear={0}");
}

TEST(Reductions, OthersAreReducedByTheirOwnOperation) {
  EXPECT_EQ(rule_text("aten::amax", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) max={a}");
  EXPECT_EQ(rule_text("aten::amin", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) min={a}");
  EXPECT_EQ(rule_text("aten::prod.dim_int", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a]) product={b}");
  EXPECT_EQ(rule_text("aten::any", {{5}}), "([a])->([]) max={a}");
  EXPECT_EQ(rule_text("aten::all", {{5}}), "([a])->([]) min={a}");
}

TEST(Reductions, AnExtremumOfAllIsOneOfTheParts) {
  EXPECT_EQ(rule_text("aten::max", {{5, 4}}), "([a,b])->([]) max={a,b}");
  EXPECT_EQ(rule_text("aten::min", {{5, 4}}), "([a,b])->([]) min={a,b}");
}

TEST(Reductions, AnExtremumWithItsIndexNeedsTheDimWhole) {
  EXPECT_EQ(rule_text("aten::max.dim", {{5, 4}}, {{"dim", -1}}), "([a,b])->([a],[a]) whole={b}");
  EXPECT_EQ(rule_text("aten::min.dim", {{5, 4}}, {{"dim", 0}, {"keepdim", true}}), "([a,b])->([-,b],[-,b]) whole={a}");
  EXPECT_EQ(rule_text("aten::argmax", {{5, 4}}, {{"dim", 0}}), "([a,b])->([b]) whole={a}");
  EXPECT_EQ(rule_text("aten::argmax", {{5, 4}}), "([a,b])->([]) whole={a,b}");
}

TEST(Reductions, MomentsNeedTheDimWhole) {
  EXPECT_EQ(rule_text("aten::var.correction", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) whole={b}");
  EXPECT_EQ(rule_text("aten::var_mean.correction", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a],[a]) whole={b}");
  EXPECT_EQ(rule_text("aten::logsumexp", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) whole={a}");
}

TEST(Reductions, AScanKeepsItsDimWhole) {
  EXPECT_EQ(rule_text("aten::cumsum", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a,b]) whole={b}");
  EXPECT_EQ(rule_text("aten::cumprod", {{5, 4}}, {{"dim", -2}}), "([a,b])->([a,b]) whole={a}");
}

} // namespace
} // namespace weft
