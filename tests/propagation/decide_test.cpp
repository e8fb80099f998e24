#include "weft/propagation/decide.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>

namespace weft {

namespace decide_test {
using namespace weft::testing;

c10::OperatorHandle op_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

CallOperand operand(int32_t argument, const char* spec, bool is_stationary = false) {
  return {argument, -1, TensorSpec::parse(spec), is_stationary};
}

TEST(Decide, AnOperandInAnotherLayoutGetsATarget) {
  const auto op = op_of("aten::mm");
  const std::vector<CallOperand> operands = {
      operand(0, "f32[8,4] @ mesh(tp=2) {S(0)}"), operand(1, "f32[4,6] @ mesh(tp=2) {S(1)}", /*is_stationary=*/true)};
  const auto decision =
      decide(op, OperatorTraits(op), {c10::IValue(), c10::IValue()}, operands, /*may_redistribute_stored=*/false);
  EXPECT_EQ(decision.targets[0].to_string(), "{R}");
  EXPECT_EQ(decision.targets[1].to_string(), "{S(1)}");
  EXPECT_TRUE(decision.redistributes(0, operands[0].spec));
  EXPECT_FALSE(decision.redistributes(1, operands[1].spec));
  ASSERT_EQ(decision.expected.size(), 1U);
  EXPECT_EQ(decision.expected[0].layout.to_string(), "{S(1)}");
  EXPECT_EQ(
      decision.reason, "by the rule ([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}; parameters stay where they are");
}

TEST(Decide, SizeArgumentsHaveGlobalSizesAndALayout) {
  const auto op = op_of("aten::view");
  const auto decision = decide(
      op, OperatorTraits(op), {c10::IValue(), c10::IValue(std::vector<int64_t>{8, 2, 3})},
      {operand(0, "f32[8,6] @ mesh(tp=2) {S(1)}")}, /*may_redistribute_stored=*/false);
  ASSERT_EQ(decision.size_arguments.size(), 1U);
  EXPECT_EQ(decision.size_arguments[0].argument, 1);
  EXPECT_EQ(decision.size_arguments[0].sizes, (std::vector<int64_t>{8, 2, 3}));
  EXPECT_EQ(decision.size_arguments[0].layout.to_string(), "{S(1)}");
}

TEST(Decide, ATableWithShardedRowsIsLookedUpPerShard) {
  const auto op = op_of("aten::embedding");
  const auto decision = decide(
      op, OperatorTraits(op), {c10::IValue(), c10::IValue(), -1, false, false},
      {operand(0, "f32[10,4] @ mesh(tp=2) {S(0)}", true), operand(1, "i64[3] @ mesh(tp=2) {R}")},
      /*may_redistribute_stored=*/false);
  ASSERT_TRUE(decision.lookup.has_value());
  EXPECT_EQ(decision.lookup->operand, 1);
  EXPECT_EQ(decision.lookup->size, 10);
  EXPECT_EQ(decision.lookup->layout.to_string(), "{S(0)}");
  EXPECT_TRUE(decision.lookup->masks_output);
  EXPECT_EQ(decision.expected[0].layout.to_string(), "{P(sum)}");
}

TEST(Decide, WithoutARuleEverythingIsReplicated) {
  const auto op = op_of("aten::put_");
  const auto decision = decide(
      op, OperatorTraits(op), {c10::IValue(), c10::IValue(), c10::IValue(), false},
      {operand(0, "f32[8] @ mesh(tp=2) {R}"), operand(1, "i64[2] @ mesh(tp=2) {S(0)}"),
       operand(2, "f32[2] @ mesh(tp=2) {S(0)}")},
      /*may_redistribute_stored=*/false);
  EXPECT_TRUE(decision.is_fallback);
  EXPECT_EQ(decision.targets[1].to_string(), "{R}");
  EXPECT_TRUE(decision.expected.empty());
}

TEST(Decide, AMeanOverAShardedDimRunsAsOtherOperators) {
  const auto op = op_of("aten::mean", "dim");
  const auto decision = decide(
      op, OperatorTraits(op), {c10::IValue(), c10::IValue(std::vector<int64_t>{1}), false, c10::IValue()},
      {operand(0, "f32[8,6] @ mesh(tp=2) {S(1)}")}, /*may_redistribute_stored=*/false);
  EXPECT_NE(decision.decomposition, nullptr);
}

TEST(Decide, AWrittenTensorStaysUnlessItMayMove) {
  const auto op = op_of("aten::mul_", "Tensor");
  const std::vector<CallOperand> operands = {
      operand(0, "f32[8] @ mesh(tp=2) {P(max)}"), operand(1, "f32[8] @ mesh(tp=2) {R}")};
  const auto decided = [&](bool may_redistribute_stored) {
    return decide(op, OperatorTraits(op), {c10::IValue(), c10::IValue()}, operands, may_redistribute_stored);
  };
  expect_contains(
      error_text<c10::ValueError>([&] { decided(false); }),
      "[aten::mul_] the result cannot be stored in f32[8] @ mesh(tp=2) {P(max)}, whose placements stay as they are.");
  EXPECT_FALSE(decided(true).targets[0].has_partial());
}

TEST(Decide, UpdatedStatisticsAreWrittenAsResultsAre) {
  const auto op = op_of("aten::native_batch_norm");
  const std::vector<CallOperand> operands = {
      operand(0, "f32[8,4] @ mesh(tp=2) {R}"), operand(3, "f32[4] @ mesh(tp=2) {P(sum)}"),
      operand(4, "f32[4] @ mesh(tp=2) {R}")};
  auto traits = OperatorTraits(op);
  traits.decomposition = nullptr;
  const auto decided = [&](bool may_redistribute_stored) {
    return decide(
        op, traits, {c10::IValue(), c10::IValue(), c10::IValue(), c10::IValue(), c10::IValue(), true, 0.1, 1e-5},
        operands, may_redistribute_stored);
  };
  expect_contains(
      error_text<c10::ValueError>([&] { decided(false); }), "the result cannot be stored in f32[4] @ mesh(tp=2)");
  const auto decision = decided(true);
  EXPECT_EQ(decision.written, (std::vector<size_t>{1, 2}));
  EXPECT_FALSE(decision.targets[1].has_partial());
}

TEST(Decide, NoTermsPassNumbersThatAreNotFinite) {
  const auto op = op_of("aten::mul", "Scalar");
  const std::vector<CallOperand> operands = {operand(0, "f32[8] @ mesh(tp=2) {P(sum)}")};
  const auto decided = [&](bool numbers_keep_linear) {
    return decide(op, OperatorTraits(op), {c10::IValue(), 2.0}, operands, true, numbers_keep_linear);
  };
  EXPECT_EQ(decided(true).targets[0].to_string(), "{P(sum)}");
  EXPECT_FALSE(decided(false).targets[0].has_partial());
}

} // namespace decide_test

} // namespace weft
