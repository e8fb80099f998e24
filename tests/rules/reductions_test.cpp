#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace reductions_test {
using namespace weft::testing;

TEST(Reductions, ASumOverShardsIsPartial) {
  EXPECT_EQ(rule_text("aten::sum", {{5, 4}}), "([a,b])->([]) sum={a,b} linear={0}");
  EXPECT_EQ(rule_text("aten::sum.dim_IntList", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) sum={b} linear={0}");
  EXPECT_EQ(
      rule_text("aten::sum.dim_IntList", {{5, 4, 3}}, {{"dim", Ints{0, -1}}, {"keepdim", true}}),
      "([a,b,c])->([-,b,-]) sum={a,c} linear={0}");
  EXPECT_EQ(rule_text("aten::sum.dim_IntList", {{5, 4}}, {{"dim", Ints{}}}), "([a,b])->([]) sum={a,b} linear={0}");
}

TEST(Reductions, CountsAddUpButAreNotThoseOfTerms) {
  EXPECT_EQ(rule_text("aten::nansum", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) sum={b}");
  EXPECT_EQ(rule_text("aten::count_nonzero.dim_IntList", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) sum={a}");
  EXPECT_EQ(rule_text("aten::count_nonzero", {{5, 4}}), "([a,b])->([]) sum={a,b}");
}

TEST(Reductions, PowersAreSummedOverShards) {
  EXPECT_EQ(rule_text("aten::linalg__powsum", {{5, 4}}), "([a,b])->([]) sum={a,b}");
  EXPECT_EQ(rule_text("aten::linalg__powsum", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) sum={b}");
}

TEST(Reductions, CountsByBinsAddUpIfTheirBoundsAreGiven) {
  EXPECT_EQ(rule_text("aten::histc", {{5, 4}}, {{"min", 0.0}, {"max", 2.0}}), "([a,b])->([-]) sum={a,b}");
  EXPECT_EQ(rule_text("aten::histc", {{5, 4}}), "none");
  EXPECT_EQ(rule_text("aten::histc", {{5, 4}}, {{"min", 2.0}, {"max", 2.0}}), "none");
}

TEST(Reductions, OthersAreReducedByTheirOwnOperation) {
  EXPECT_EQ(rule_text("aten::amax", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) max={a} filled={a} linear(max)={0}");
  EXPECT_EQ(rule_text("aten::amin", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) min={a} filled={a} linear(min)={0}");
  EXPECT_EQ(rule_text("aten::prod.dim_int", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a]) product={b} linear(product)={0}");
}

TEST(Reductions, TruthIsReducedByMaximumAndMinimum) {
  EXPECT_EQ(rule_text("aten::any", {{5}}), "([a])->([]) max={a}");
  EXPECT_EQ(rule_text("aten::all", {{5}}), "([a])->([]) min={a}");
  EXPECT_EQ(rule_text("aten::any.dims", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) max={b}");
}

TEST(Reductions, TruthIsNotReducedWhereAListNamesNoDim) {
  EXPECT_EQ(rule_text("aten::any.dims", {{5, 4}}, {{"dim", Ints{}}}), "([a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::all.dims", {{5, 4}}), "([a,b])->([]) min={a,b}");
}

TEST(Reductions, AnExtremumOfAllElementsIsPartialOverShards) {
  EXPECT_EQ(rule_text("aten::max", {{5, 4}}), "([a,b])->([]) max={a,b} filled={a,b} linear(max)={0}");
  EXPECT_EQ(rule_text("aten::min", {{5, 4}}), "([a,b])->([]) min={a,b} filled={a,b} linear(min)={0}");
}

TEST(Reductions, AnExtremumWithItsIndexNeedsTheDimUnsharded) {
  EXPECT_EQ(rule_text("aten::max.dim", {{5, 4}}, {{"dim", -1}}), "([a,b])->([a],[a]) unsharded={b}");
  EXPECT_EQ(
      rule_text("aten::min.dim", {{5, 4}}, {{"dim", 0}, {"keepdim", true}}), "([a,b])->([-,b],[-,b]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::argmax", {{5, 4}}, {{"dim", 0}}), "([a,b])->([b]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::argmax", {{5, 4}}), "([a,b])->([]) unsharded={a,b}");
  EXPECT_EQ(rule_text("aten::aminmax", {{5, 4}}, {{"dim", 0}}), "([a,b])->([b],[b]) unsharded={a}");
}

TEST(Reductions, AMedianOfADimComesWithItsIndex) {
  EXPECT_EQ(rule_text("aten::median", {{5, 4}}), "([a,b])->([]) unsharded={a,b}");
  EXPECT_EQ(rule_text("aten::median.dim", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a],[a]) unsharded={b}");
}

TEST(Reductions, MomentsNeedTheDimUnsharded) {
  EXPECT_EQ(rule_text("aten::var.correction", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::var_mean.correction", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a],[a]) unsharded={b}");
  EXPECT_EQ(rule_text("aten::logsumexp", {{5, 4}}, {{"dim", Ints{0}}}), "([a,b])->([b]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::linalg_vector_norm", {{5, 4}}), "([a,b])->([]) unsharded={a,b}");
}

TEST(Reductions, AMeanAndATraceAreLinear) {
  EXPECT_EQ(rule_text("aten::mean.dim", {{5, 4}}, {{"dim", Ints{1}}}), "([a,b])->([a]) unsharded={b} linear={0}");
  EXPECT_EQ(rule_text("aten::trace", {{5, 4}}), "([a,b])->([]) unsharded={a,b} linear={0}");
}

TEST(Reductions, AScanKeepsItsDimUnsharded) {
  EXPECT_EQ(rule_text("aten::cumsum", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a,b]) unsharded={b} linear={0}");
  EXPECT_EQ(rule_text("aten::cumprod", {{5, 4}}, {{"dim", -2}}), "([a,b])->([a,b]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::cummax", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b],[a,b]) unsharded={a}");
  EXPECT_EQ(rule_text("aten::cumsum", {{}}, {{"dim", 0}}), "([])->([]) linear={0}");
}

TEST(Reductions, RenormKeepsTheDimsOfItsNormsUnsharded) {
  EXPECT_EQ(
      rule_text("aten::renorm", {{5, 4, 3}}, {{"p", 2}, {"dim", 1}, {"maxnorm", 1}}),
      "([a,b,c])->([a,b,c]) unsharded={a,c}");
}

TEST(Reductions, AMaximumOfTwoTensorsReducesNothing) {
  EXPECT_EQ(rule_text("aten::max.other", {{5, 4}, {4}}), "([a,b],[b])->([a,b]) linear(max)={0,1}");
  EXPECT_EQ(rule_text("aten::min.other", {{5}, {5}}), "([a],[a])->([a]) linear(min)={0,1}");
}

TEST(Reductions, ASimilarityReducesADimOfBoth) {
  EXPECT_EQ(rule_text("aten::cosine_similarity", {{5, 4}, {5, 4}}), "([a,b],[a,b])->([a]) unsharded={b}");
  EXPECT_EQ(
      rule_text("aten::cosine_similarity", {{5, 4}, {3, 1, 4}}, {{"dim", -1}}),
      "([b,c],[a,-,c])->([a,b]) unsharded={c}");
}

} // namespace reductions_test

} // namespace weft
