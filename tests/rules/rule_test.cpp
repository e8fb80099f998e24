#include "weft/rules/rule.h"

#include <gtest/gtest.h>

namespace weft {

namespace rule_test {
/// ([c],[a,b],[b,c])->([a,c])
Rule addmm_rule() {
  Rule rule;
  const auto a = rule.add_factor(5);
  const auto b = rule.add_factor(4);
  const auto c = rule.add_factor(3);
  rule.inputs = {{{c}}, {{a}, {b}}, {{b}, {c}}};
  rule.outputs = {{{a}, {c}}};
  return rule;
}

TEST(Rule, FactorsAreNumberedAsTheyAreAdded) {
  Rule rule;
  EXPECT_EQ(rule.add_factor(5), 0);
  EXPECT_EQ(rule.add_factor(4), 1);
  EXPECT_EQ(rule.sizes, std::vector<int64_t>({5, 4}));
}

TEST(Rule, AFactorOfInputsAloneIsReduced) {
  const auto rule = addmm_rule();
  EXPECT_TRUE(rule.is_reduced(1));
  EXPECT_FALSE(rule.is_reduced(0));
  EXPECT_FALSE(rule.is_reduced(2));
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) sum={b}");
}

TEST(Rule, AFactorOfAnyOutputIsNotReduced) {
  Rule rule;
  const auto a = rule.add_factor(5);
  rule.inputs = {{{a}}};
  rule.outputs = {{}, {{a}}};
  EXPECT_FALSE(rule.is_reduced(a));
}

TEST(Rule, AFactorIsFoundInsideAMergedDim) {
  const Rule::Dims dims = {{0, 1}, {3}};
  EXPECT_TRUE(Rule::has(dims, 0));
  EXPECT_TRUE(Rule::has(dims, 1));
  EXPECT_FALSE(Rule::has(dims, 2));
  EXPECT_TRUE(Rule::has(dims, 3));
}

TEST(Rule, PrintsTheOperationThatReduces) {
  auto rule = addmm_rule();
  rule.reduction = ReduceOp::Max;
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) max={b}");
}

TEST(Rule, PrintsAnUnshardedFactorAsSuchAndNotAsReduced) {
  auto rule = addmm_rule();
  rule.unsharded = {1, 0};
  EXPECT_TRUE(rule.is_unsharded(0));
  EXPECT_TRUE(rule.is_unsharded(1));
  EXPECT_FALSE(rule.is_unsharded(2));
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) unsharded={a,b}");
}

TEST(Rule, PrintsAddedOperandsAndLinearSets) {
  auto rule = addmm_rule();
  rule.added = {0};
  rule.linear = {{0, 1}, {0, 2}};
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear={0,1}{0,2}");
  rule.linear_op = ReduceOp::Max;
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear(max)={0,1}{0,2}");
  rule.linear_in_any_op = true;
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear*={0,1}{0,2}");
}

TEST(Rule, PrintsFactorsThatMustNotBeEmptyAndOperandsThatAreUpdated) {
  auto rule = addmm_rule();
  rule.filled = {0, 2};
  rule.updated = {0};
  EXPECT_EQ(rule.to_string(), "([c],[a,b],[b,c])->([a,c]) sum={b} filled={a,c} updated={0}");
}

TEST(Rule, PrintsMergedDimsAndDimsThatCannotBeSharded) {
  Rule rule;
  const auto a = rule.add_factor(3);
  const auto b = rule.add_factor(4);
  rule.inputs = {{{a, b}, {}}};
  rule.outputs = {{{a}, {}, {b}}, {}};
  EXPECT_EQ(rule.to_string(), "([(a b),-])->([a,-,b],[])");
}

TEST(Rule, FactorsAfterTheLastLetterAreNumbered) {
  Rule rule;
  for (int64_t i = 0; i < 28; ++i) {
    rule.add_factor(2);
  }
  rule.inputs = {{{25}, {26}, {27}}};
  rule.outputs = {{{25}, {26}, {27}}};
  rule.unsharded.resize(25);
  for (Rule::Factor f = 0; f < 25; ++f) {
    rule.unsharded[f] = f;
  }
  EXPECT_EQ(rule.to_string(), "([z,a1,b1])->([z,a1,b1]) unsharded={a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y}");
}

TEST(Rule, OperandsOfAnyLayoutAreNamed) {
  Rule rule;
  const auto a = rule.add_factor(5);
  rule.inputs = {{{a}}, {{}}};
  rule.outputs = {{{a}}};
  rule.of_any_layout = {1};
  EXPECT_EQ(rule.to_string(), "([a],[-])->([a]) any={1}");
}

} // namespace rule_test

} // namespace weft
