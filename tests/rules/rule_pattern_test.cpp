#include "weft/rules/rule_pattern.h"

#include "tests/support/error_text.h"
#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace rule_pattern_test {
using namespace weft::testing;

/// The rule that a text gives for a call, as text.
std::string rule_by(
    const std::string& text,
    const std::string& op,
    std::vector<Ints> shapes,
    const Arguments& arguments = {}) {
  const RuleCall call(op, std::move(shapes), arguments);
  const auto pattern = RulePattern::parse(text);
  pattern.check(call.call().schema());
  const auto rule = pattern.rule(call.call());
  return rule ? rule->to_string() : "none";
}

std::string error_of(const std::string& text) {
  return error_text([&] { RulePattern::parse(text); });
}

TEST(RulePattern, ATextOfTheTableOfRulesParsesBack) {
  const auto text = "([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}";
  EXPECT_EQ(rule_by(text, "aten::mm", {{5, 4}, {4, 3}}), text);
  EXPECT_EQ(rule_text("aten::mm", {{5, 4}, {4, 3}}), text);
  const auto softmax = "([a,b])->([a,b]) unsharded={b} filled={a}";
  EXPECT_EQ(rule_by(softmax, "aten::_softmax", {{5, 4}}, {{"dim", 1}, {"half_to_float", false}}), softmax);
  const auto amax = "([a,b])->([a]) max={b} filled={b} linear(max)={0}";
  EXPECT_EQ(rule_by(amax, "aten::amax", {{5, 4}}), amax);
  EXPECT_EQ(rule_by("([a])->([a]) linear*={0}", "aten::alias", {{5}}), "([a])->([a]) linear*={0}");
}

TEST(RulePattern, FactorsMayHaveNames) {
  EXPECT_EQ(
      rule_by("([rows,inner],[inner,columns])->([rows,columns]) sum={inner}", "aten::mm", {{5, 4}, {4, 3}}),
      "([a,b],[b,c])->([a,c]) sum={b}");
}

TEST(RulePattern, AnEllipsisStandsForTheLeadingDims) {
  const auto text = "([...,a],[a])->([...,a])";
  EXPECT_EQ(rule_by(text, "aten::mul.Tensor", {{5, 4, 3}, {3}}), "([a,b,c],[c])->([a,b,c])");
  EXPECT_EQ(rule_by(text, "aten::mul.Tensor", {{3}, {3}}), "([a],[a])->([a])");
}

TEST(RulePattern, SizesOfFactorsFollowFromOtherDims) {
  EXPECT_EQ(rule_by("([(a b),c],[a])->([(a b),c])", "aten::mul.Tensor", {{6, 5}, {2}}), "([(a b),c],[a])->([(a b),c])");
  EXPECT_EQ(
      rule_by("([(a b)])->([a,b]) size=[a,b]", "aten::view", {{6}}, {{"size", Ints{2, 3}}}),
      "([(a b)])->([a,b]) size=[a,b]");
}

TEST(RulePattern, OperandsThatDoNotFitHaveNoRule) {
  EXPECT_EQ(rule_by("([a,b],[b])->([a,b])", "aten::mul.Tensor", {{5, 4}, {3}}), "none");
  EXPECT_EQ(rule_by("([a,b],[b])->([a,b])", "aten::mul.Tensor", {{5, 4, 3}, {3}}), "none");
  EXPECT_EQ(rule_by("([(a b)],[c])->([(a b)]) unsharded={c}", "aten::mul.Tensor", {{6}, {2}}), "none");
}

TEST(RulePattern, AnAbsentTensorDoesNotCount) {
  const auto text = "([a,k],[b,k],[b])->([a,b]) sum={k} added={2} linear={0,2}{1,2}";
  EXPECT_EQ(rule_by(text, "aten::linear", {{5, 4}, {3, 4}}), "([a,b],[c,b])->([a,c]) sum={b} linear={0}{1}");
  EXPECT_EQ(
      rule_by(text, "aten::linear", {{5, 4}, {3, 4}, {3}}),
      "([a,b],[c,b],[c])->([a,c]) sum={b} added={2} linear={0,2}{1,2}");
}

TEST(RulePattern, TextsThatAreWrongRaise) {
  expect_contains(error_of("([a,b]"), "expected ')' at column 7");
  expect_contains(error_of("([a,b])->([a])"), "a factor that no output has must be listed, but got 'b'");
  expect_contains(error_of("([a])->([a,b])"), "a factor of an output must be one of an input, but got 'b'");
  expect_contains(error_of("([a,a])->([a,a])"), "a factor may occur once in a tensor, but got 'a' twice");
  expect_contains(error_of("([a])->([a]) sum={a}"), "a reduced factor must be in no output, but got 'a'");
  expect_contains(error_of("([a])->([a]) linear={2}"), "the number of an input below 1 is required, but got 2");
  expect_contains(error_of("([a],[b])->([b]) sum={a} lookup={1 in a}"), "no lookup");
}

TEST(RulePattern, TextsMustFitTheSchema) {
  const auto text = [](const char* rule) { return error_text([&] { rule_by(rule, "aten::mm", {{2, 2}, {2, 2}}); }); };
  expect_contains(text("([a,b])->([a,b])"), "2 inputs are required for aten::mm");
  expect_contains(text("([a,b],[a,b])->()"), "1 outputs are required for aten::mm");
  expect_contains(text("([a,b],[a,b])->([a,b]) size=[a]"), "an argument that states sizes is required before '='");
}

} // namespace rule_pattern_test

} // namespace weft
