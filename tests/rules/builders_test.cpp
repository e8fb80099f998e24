#include "weft/rules/builders.h"

#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace builders_test {
using namespace weft::testing;

std::string built(const RuleFunction& rule, const char* op, std::vector<Ints> shapes, const Arguments& arguments = {}) {
  return rule(RuleCall(op, std::move(shapes), arguments).call())->to_string();
}

TEST(Builders, PointwiseOperandsBroadcastFromTheBack) {
  EXPECT_EQ(built(pointwise(), "aten::mul.Tensor", {{5, 1, 3}, {4, 3}}), "([a,-,c],[b,c])->([a,b,c])");
  EXPECT_EQ(built(pointwise(), "aten::mul.Tensor", {{3}, {}}), "([a],[])->([a])");
}

TEST(Builders, PointwiseKeepsTheLinearSetsThatTheCallHasOperandsFor) {
  EXPECT_EQ(built(pointwise({{0}, {1}}), "aten::mul.Tensor", {{5, 4}, {5, 4}}), "([a,b],[a,b])->([a,b]) linear={0}{1}");
  EXPECT_EQ(built(pointwise({{0}, {1}}), "aten::mul.Scalar", {{5}}, {{"other", 2}}), "([a])->([a]) linear={0}");
}

TEST(Builders, PointwiseMayGiveSeveralTensors) {
  EXPECT_EQ(built(pointwise({}, 2), "aten::frexp.Tensor", {{5}}), "([a])->([a],[a])");
}

TEST(Builders, AdditiveOperandsArePartialTogether) {
  EXPECT_EQ(built(additive(), "aten::add.Tensor", {{5, 4}, {4}}), "([a,b],[b])->([a,b]) linear={0,1}");
}

TEST(Builders, AddingANumberPassesAveragesAlone) {
  EXPECT_EQ(built(additive(), "aten::add.Scalar", {{5}}, {{"other", 2}}), "([a])->([a]) linear(avg)={0}");
}

TEST(Builders, CopyingPassesPartialValuesOfAnyOperation) {
  EXPECT_EQ(built(copying(), "aten::clone", {{5, 4}}), "([a,b])->([a,b]) linear*={0}");
}

TEST(Builders, AContractionReducesTheLettersThatTheOutputLacks) {
  EXPECT_EQ(
      built(contraction("bmk,kn->bmn"), "aten::matmul", {{2, 5, 4}, {4, 3}}),
      "([a,b,c],[c,d])->([a,b,d]) sum={c} linear={0}{1}");
  EXPECT_EQ(built(contraction("k,k->"), "aten::dot", {{4}, {4}}), "([a],[a])->([]) sum={a} linear={0}{1}");
}

TEST(Builders, AContractionHasNoRuleForOperandsThatDoNotFit) {
  const auto fits = [](std::vector<Ints> shapes) {
    return contraction("bmk,bkn->bmn")(RuleCall("aten::bmm", std::move(shapes), {}).call()).has_value();
  };
  EXPECT_TRUE(fits({{2, 3, 4}, {2, 4, 5}}));
  EXPECT_FALSE(fits({{3, 4}, {4, 5}}));
  EXPECT_FALSE(fits({{2, 3, 4}, {2, 4, 5, 6}}));
  EXPECT_FALSE(fits({{2, 3, 4}, {2, 3, 5}}));
}

TEST(Builders, AReductionDropsTheNamedDims) {
  const Arguments last = {{"dim", Ints{-1}}};
  EXPECT_EQ(
      built(reduction(ReduceOp::Sum), "aten::sum.dim_IntList", {{5, 4}}, last), "([a,b])->([a]) sum={b} linear={0}");
  EXPECT_EQ(built(reduction(ReduceOp::Sum), "aten::sum", {{5, 4}}), "([a,b])->([]) sum={a,b} linear={0}");
}

TEST(Builders, AReductionThatKeepsItsDimsLeavesThemUnsharded) {
  EXPECT_EQ(
      built(reduction(ReduceOp::Sum), "aten::sum.dim_IntList", {{5, 4}}, {{"dim", Ints{0}}, {"keepdim", true}}),
      "([a,b])->([-,b]) sum={a} linear={0}");
}

TEST(Builders, AReductionPassesPartialValuesOfItsOwnOperation) {
  EXPECT_EQ(
      built(reduction(ReduceOp::Max), "aten::amax", {{5, 4}}, {{"dim", Ints{1}}}),
      "([a,b])->([a]) max={b} filled={b} linear(max)={0}");
  EXPECT_EQ(
      built(reduction(ReduceOp::Product), "aten::prod.dim_int", {{5, 4}}, {{"dim", 1}}),
      "([a,b])->([a]) product={b} linear(product)={0}");
}

TEST(Builders, ASumInAnotherKindOfNumberIsNotLinear) {
  const auto as = [](at::ScalarType dtype) {
    return built(reduction(ReduceOp::Sum), "aten::sum", {{5}}, {{"dtype", static_cast<int64_t>(dtype)}});
  };
  EXPECT_EQ(as(at::kDouble), "([a])->([]) sum={a} linear={0}");
  EXPECT_EQ(as(at::kLong), "([a])->([]) sum={a}");
}

TEST(Builders, AReductionOfUnshardedDimsGivesAnyNumberOfOutputs) {
  EXPECT_EQ(built(unsharded_reduction(2), "aten::max.dim", {{5, 4}}, {{"dim", 1}}), "([a,b])->([a],[a]) unsharded={b}");
  EXPECT_EQ(built(unsharded_reduction(1, {{0}}), "aten::mean", {{5, 4}}), "([a,b])->([]) unsharded={a,b} linear={0}");
}

TEST(Builders, AlongDimForbidsShardsOfTheNamedDim) {
  EXPECT_EQ(built(along_dim("dim"), "aten::cumsum", {{5, 4}}, {{"dim", -1}}), "([a,b])->([a,b]) unsharded={b}");
  EXPECT_EQ(built(along_dim("dim", 2), "aten::cummax", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b],[a,b]) unsharded={a}");
}

TEST(Builders, ASingleNumberHasNoDimToForbidShardsOf) {
  EXPECT_EQ(built(along_dim("dim"), "aten::cumsum", {{}}, {{"dim", -1}}), "([])->([])");
  EXPECT_EQ(
      built(reduction(ReduceOp::Sum), "aten::sum.dim_IntList", {{}}, {{"dim", Ints{0}}}), "([])->([]) linear={0}");
}

TEST(Builders, DimsAreRearrangedAsTheOrderSays) {
  const RuleCall flip("aten::flip", {{5, 4, 3}}, {{"dims", Ints{0}}});
  EXPECT_EQ(natural_order(flip.call()), Ints({0, 1, 2}));
  EXPECT_EQ(rearranged(flip.call(), {2, -1, 0}).to_string(), "([a,b,c])->([c,-,a]) sum={b} linear*={0}");
  EXPECT_EQ(
      with_unsharded(rearranged(flip.call(), {0, 1, 2}), {1}).to_string(),
      "([a,b,c])->([a,b,c]) unsharded={b} linear*={0}");
}

TEST(Builders, NarrowIntegersAndTruthValuesAreNoTerms) {
  EXPECT_TRUE(
      has_terms(at::kFloat) && has_terms(at::kBFloat16) && has_terms(at::kComplexFloat) && has_terms(at::kLong));
  EXPECT_FALSE(has_terms(at::kBool) || has_terms(at::kByte) || has_terms(at::kInt));
}

TEST(Builders, TermsAreCastAsTheirSumIsIfNothingIsTruncated) {
  EXPECT_TRUE(casts_terms(at::kFloat, at::kBFloat16) && casts_terms(at::kInt, at::kInt));
  EXPECT_FALSE(casts_terms(at::kFloat, at::kLong) || casts_terms(at::kBool, at::kFloat));
  EXPECT_FALSE(casts_terms(at::kComplexFloat, at::kFloat));
}

TEST(Builders, OwnFactorsAreOnePerDim) {
  Rule rule;
  rule.add_factor(9);
  const auto dims = own_factors(rule, {5, 4});
  EXPECT_EQ(dims, Rule::Dims({{1}, {2}}));
  EXPECT_EQ(rule.sizes, Ints({9, 5, 4}));
}

TEST(Builders, ADimThatBroadcastsHasNoFactor) {
  Rule rule;
  const auto a = rule.add_factor(5);
  const auto b = rule.add_factor(4);
  EXPECT_EQ(broadcast_dims(rule, {a, b}, {1, 4}), Rule::Dims({{}, {b}}));
  EXPECT_EQ(broadcast_dims(rule, {a, b}, {4}), Rule::Dims({{b}}));
  EXPECT_EQ(broadcast_dims(rule, {a, b}, {5, 1}), Rule::Dims({{a}, {}}));
}

TEST(Builders, TheLargerOfTwoPassesMaxima) {
  EXPECT_EQ(built(larger_of(ReduceOp::Max), "aten::maximum", {{5}, {5}}), "([a],[a])->([a]) linear(max)={0,1}");
}

TEST(Builders, ARuleMayAskForDims) {
  const auto rule = of_ndim(2, copying());
  EXPECT_FALSE(rule(RuleCall("aten::clone", {{5}}).call()).has_value());
  EXPECT_TRUE(rule(RuleCall("aten::clone", {{5, 4}}).call()).has_value());
}

} // namespace builders_test

} // namespace weft
