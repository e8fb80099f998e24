#include "weft/graph/analysis/call_analysis.h"

#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace call_analysis_test {
Program program() {
  return parse_program(R"(
program @ mesh(tp=2)
input %x: f32[4,8] {S(0)} = user
input %w: f32[8,6] {S(1)} = parameter "w"
  %a: f32[4,6] {S(1)} = aten::mm(%x, %w)
  %b: f32[4,6] {S(1)} = aten::mm(%x, %w)
  %c: f32[4,8] {S(0)} = aten::dropout(%x, 0.5, False)
  %d: f32[4,8] {R} = aten::dropout(%x, 0.5, True)
  %e: f32[8,8] {R} = aten::cat([%x, %x])
output %a = user
)");
}

const auto kNever = [](const Value*) { return false; };

TEST(CallAnalysis, EqualCallsAreDecidedOnce) {
  const auto global = program();
  const TrialValues values(global);
  CallAnalysis analysis(*global.mesh, values);
  const auto* a = global.graph->first();
  EXPECT_EQ(analysis.decide(*a, kNever), analysis.decide(*a->next(), kNever));
  const auto stationary = analysis.decide(*a, [&](const Value* value) { return value->name() == "w"; });
  EXPECT_NE(stationary, analysis.decide(*a, kNever));
  EXPECT_EQ(stationary->targets[1].to_string(), "{S(1)}");
  EXPECT_EQ(stationary->targets[0].to_string(), "{R}");
}

TEST(CallAnalysis, ARandomOperatorDrawsTheNumbersOfTheGlobalTensor) {
  const auto global = program();
  const TrialValues values(global);
  CallAnalysis analysis(*global.mesh, values);
  const auto* idle = global.graph->first()->next()->next();
  EXPECT_EQ(analysis.decide(*idle, kNever)->targets[0].to_string(), "{S(0)}");
  const auto drawing = analysis.decide(*idle->next(), kNever);
  EXPECT_EQ(drawing->targets[0].to_string(), "{R}");
  EXPECT_TRUE(drawing->is_fallback);
}

TEST(CallAnalysis, TensorsAreListedInTheOrderOfTheArguments) {
  const auto global = program();
  const auto* cat = global.graph->first()->next()->next()->next()->next();
  const auto operands = CallAnalysis::tensor_operands(*cat);
  ASSERT_EQ(operands.size(), 2U);
  EXPECT_EQ(operands[1].argument, 0);
  EXPECT_EQ(operands[1].position, 1);
}

} // namespace call_analysis_test

} // namespace weft::graph
