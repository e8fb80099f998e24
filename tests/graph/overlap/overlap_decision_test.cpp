#include "weft/graph/overlap/overlap_decision.h"

#include "tests/support/overlapped.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace overlap_decision_test {
using testing::overlap_options;

/// A program that gathers rows of 1,024 floats and multiplies them by a matrix; %n could hide the gather.
std::string gather_of(int64_t rows, const std::string& between = "") {
  const auto count = std::to_string(rows);
  return R"(program @ mesh(tp=2)
input %w: f32[1024,1024] {S(1)} = parameter "w"
input %v: f32[4096,4096] {R} = parameter "v"
input %x: f32[)" +
      count + R"(,1024] {S(0)} = user
  %full: f32[)" +
      count + ",1024] {R} = all_gather(%x, tp: {S(0)} -> {R})\n" + between + "  %y: f32[" + count +
      ",1024] {S(1)} = aten::mm(%full, %w)\noutput %y = user\n";
}

OverlapDecision decision_of(const std::string& text, OverlapMode mode) {
  return testing::overlapped(text, mode).decisions.at(0);
}

TEST(OverlapDecision, IsMadeByTheRates) {
  const auto large = decision_of(gather_of(1024), OverlapMode::Auto);
  EXPECT_TRUE(large.fused) << large.reason;
  EXPECT_GT(large.chunks, 1);
  EXPECT_GT(large.predicted_gain_seconds, 0);
  EXPECT_NE(large.reason.find("instead of"), std::string::npos) << large.reason;
  const auto small = decision_of(gather_of(2), OverlapMode::Auto);
  EXPECT_FALSE(small.fused);
  EXPECT_EQ(small.reason, "too little is sent or computed for any link");
  const auto forced = decision_of(gather_of(2), OverlapMode::Force);
  EXPECT_TRUE(forced.fused);
  EXPECT_EQ(forced.reason.find("forced, although "), 0) << forced.reason;
}

TEST(OverlapDecision, AGroupMayHaveAModeOfItsOwn) {
  const auto decided = [](OverlapOptions options) {
    auto program = parse_program(gather_of(1024));
    return micro_pipeline(program, options);
  };
  auto options = testing::overlap_options(OverlapMode::Force);
  options.modes_of_groups = {{"dp", OverlapMode::Off}};
  EXPECT_TRUE(decided(options).at(0).fused);
  options.modes_of_groups = {{"tp", OverlapMode::Off}};
  EXPECT_EQ(decided(options).at(0).reason, "overlap is off for its group");
  options.mode = OverlapMode::Off;
  EXPECT_TRUE(decided(options).empty());
  options.modes_of_groups = {{"tp", OverlapMode::Force}};
  EXPECT_TRUE(decided(options).at(0).fused);
}

TEST(OverlapDecision, WhatOtherComputeHidesIsNoGain) {
  const std::string hiding = "  %n: f32[4096,4096] {R} = aten::mm(%v, %v)\n";
  auto text = gather_of(1024, hiding);
  text += "output %n = user\n";
  const auto hidden = decision_of(text, OverlapMode::Auto);
  EXPECT_FALSE(hidden.fused);
  EXPECT_NE(hidden.reason.find("of it that other compute hides, %n"), std::string::npos) << hidden.reason;
  EXPECT_TRUE(decision_of(text, OverlapMode::Force).fused);
}

TEST(OverlapDecision, SaysWhatAndWhyInOneLine) {
  const OverlapDecision fused{
      .node = "all_gather_3",
      .module = "layers.0",
      .kind = "all_gather",
      .group = "tp",
      .fused = true,
      .matmuls = 3,
      .chunks = 4,
      .predicted_gain_seconds = 1.2e-3,
      .reason = "why"};
  EXPECT_EQ(
      fused.to_string(),
      "all_gather %all_gather_3 over tp, in layers.0: fused with 3 matmuls, 4 chunks, gains 1.2ms: why");
  const OverlapDecision left{.node = "r", .module = "", .kind = "all_reduce", .group = "tp", .reason = "why"};
  EXPECT_EQ(left.to_string(), "all_reduce %r over tp: not fused, why");
}

TEST(OverlapGate, AsksForNoRatesWhereNothingMatters) {
  // The rates of a mesh whose ranks cannot communicate are constants.
  const auto program = parse_program(gather_of(1024));
  const OverlapGate gate(program, {});
  EXPECT_EQ(gate.largest_local_sizes(*program.inputs[2].value), (std::vector<int64_t>{512, 1024}));
}

TEST(OverlapGate, TheLargestLocalTensorMayBeThatOfAnyRank) {
  const auto program = parse_program(R"(program @ mesh(tp=2)
input %x: f32[48,64] {S(0|8:40)} = user
output %x = user
)");
  const OverlapGate gate(program, {});
  EXPECT_EQ(gate.largest_local_sizes(*program.inputs[0].value), (std::vector<int64_t>{40, 64}));
}

} // namespace overlap_decision_test

} // namespace weft::graph
