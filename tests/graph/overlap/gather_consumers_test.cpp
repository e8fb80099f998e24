#include "weft/graph/overlap/gather_consumers.h"

#include "tests/support/overlapped.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace gather_consumers_test {
using testing::expect_not_overlapped;
using testing::overlapped;

/// A program of two ranks with `nodes`, which take %full.
std::string with(const std::string& nodes) {
  return R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %b: f32[8] {S(0)} = parameter "b"
input %x: f32[8,8] {S(0)} = user
  %full: f32[8,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
)" + nodes;
}

TEST(GatherConsumers, WhatIsNoMatmulIsNone) {
  expect_not_overlapped(
      with("  %y: f32[8,8] {R} = aten::relu(%full)\noutput %y = user\n"), "no matmul takes what is gathered");
  expect_not_overlapped(with("output %x = user\n"), "the gathered value is not used");
}

TEST(GatherConsumers, TheRightHandSideIsNotGatheredInChunks) {
  expect_not_overlapped(
      with("  %y: f32[8,8] {R} = aten::mm(%full, %full)\noutput %y = user\n"),
      "%y: the gathered value is on both of its sides");
  expect_not_overlapped(
      R"(program @ mesh(tp=2)
input %x: f32[8,8] {S(0)} = user
input %v: f32[8,8] {R} = user
  %full: f32[8,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %y: f32[8,8] {R} = aten::mm(%v, %full)
output %y = user
)",
      "%y has it on its right-hand side");
  expect_not_overlapped(
      with("  %n: f32[8,8] {R} = aten::neg(%full)\n  %y: f32[8,8] {R} = aten::mm(%full, %n)\noutput %y = user\n"),
      "%y: its right-hand side is computed from the gathered value");
}

TEST(GatherConsumers, FactorsAndBiasesThatAreMatricesAreRefused) {
  expect_not_overlapped(
      with("  %y: f32[8,8] {S(1)} = aten::addmm(%b, %full, %w, beta=2)\noutput %y = user\n"),
      "%y: it has factors, alpha or beta");
  expect_not_overlapped(
      with("  %y: f32[8,8] {S(1)} = aten::addmm(%w, %full, %w)\noutput %y = user\n"),
      "%y: what it adds is not one row");
}

TEST(GatherConsumers, ACastThatMakesWhatIsSentLongerStaysBehindTheGather) {
  expect_not_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %x: bf16[8,8] {S(0)} = user
  %full: bf16[8,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %long: f32[8,8] {R} = aten::_to_copy(%full, dtype=f32)
  %y: f32[8,8] {S(1)} = aten::mm(%long, %w)
output %y = user
)",
      "no matmul takes what is gathered");
}

TEST(GatherConsumers, AGatheredInnerDimIsOfMatmulsAlone) {
  const std::string inner = R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %v: f32[8,8] {R} = parameter "v"
input %x: f32[8,8] {S(1)} = user
  %full: f32[8,8] {R} = all_gather(%x, tp: {S(1)} -> {R})
)";
  const auto alone = overlapped(inner + "  %y: f32[8,8] {S(1)} = aten::mm(%full, %w)\noutput %y = user\n");
  EXPECT_EQ(alone.lines, std::vector<std::string>{"%full: fused with 1 matmul"});
  expect_not_overlapped(
      inner + "  %y: f32[8,8] {S(1)} = aten::mm(%full, %w)\n  %z: f32[8,8] {R} = aten::relu(%full)\n" +
          "output %y = user\noutput %z = user\n",
      "the dim that the matmul sums over is gathered, and others than matmuls use what is gathered too (%z)");
  // Ranks that compute the same number must compute the same bits.
  expect_not_overlapped(
      inner + "  %y: f32[8,8] {R} = aten::mm(%full, %v)\noutput %y = user\n",
      "%y: all ranks compute the same, and would sum over the members in different orders");
}

const std::string kScaled = R"(program @ mesh(tp=2)
input %w: f8e4m3fn[16,16|1,16] {R} = parameter "w"
input %v: f32[16,16] {R} = parameter "v"
input %s: f32[] {R} = user
input %u: f32[] {R} = user
input %rows: f32[32,1] {R} = user
input %columns: f32[1,16] {R} = user
input %x: f8e4m3fn[2,16,16] {S(1)} = user
  %full: f8e4m3fn[2,16,16] {R} = all_gather(%x, tp: {S(1)} -> {R})
  %flat: f8e4m3fn[32,16] {R} = aten::view(%full, [32, 16]) sizes(size: [32,16] {R})
)";

TEST(GatherConsumers, AScalePerRowOfFlattenedRowsIsRefused) {
  expect_not_overlapped(
      kScaled +
          "  %y: bf16[32,16] {R} = aten::_scaled_mm(%flat, %w, %rows, %columns, out_dtype=bf16)\noutput %y = user\n",
      "%y: its left-hand side has a scale per row, and not the leading dims of what is gathered");
}

TEST(GatherConsumers, MatmulsWithAnotherScaleTakeTheGatheredValue) {
  const auto result = overlapped(
      kScaled + "  %y: bf16[32,16] {R} = aten::_scaled_mm(%flat, %w, %s, %s, out_dtype=bf16)\n" +
      "  %z: bf16[32,16] {R} = aten::_scaled_mm(%flat, %w, %u, %s, out_dtype=bf16)\n" +
      "  %a: bf16[32,16] {R} = aten::_scaled_mm(%flat, %w, %s, %u, out_dtype=bf16)\n" +
      "output %y = user\noutput %z = user\noutput %a = user\n");
  EXPECT_EQ(result.lines, std::vector<std::string>{"%full: fused with 2 matmuls"});
  EXPECT_NE(
      result.decisions[0].reason.find("%z: its left-hand side has another scale than that of others"),
      std::string::npos)
      << result.decisions[0].reason;
  EXPECT_NE(result.program.find("%z: bf16[32,16] {R} = aten::_scaled_mm(%flat, %w, %u, %s"), std::string::npos);
  EXPECT_NE(result.program.find("%flat: f8e4m3fn[32,16] {R} = aten::view(%gathered"), std::string::npos);
}

TEST(GatherConsumers, NothingIsMovedAcrossAWriteThatMatters) {
  expect_not_overlapped(
      with("  %x2: f32[8,8] {S(0)} = aten::relu_(%x)\n  %y: f32[8,8] {S(1)} = aten::mm(%full, %w)\noutput %y = user\n"),
      "it is written to in between");
  const auto weights =
      overlapped(with("  %y: f32[8,8] {S(1)} = aten::mm(%full, %w)\n  %w2: f32[8,8] {S(1)} = aten::relu_(%w)\n"
                      "  %z: f32[8,8] {S(1)} = aten::mm(%full, %w)\noutput %y = user\noutput %z = user\n"));
  EXPECT_EQ(weights.lines, std::vector<std::string>{"%full: fused with 1 matmul"});
  EXPECT_NE(weights.program.find("%z: f32[8,8] {S(1)} = aten::mm(%gathered, %w)"), std::string::npos)
      << weights.program;
}

TEST(GatherConsumers, ABatchOfMatmulsNeedsOneRightHandSide) {
  const std::string batch = R"(program @ mesh(tp=2)
input %w: f32[1,8,8] {S(2)} = parameter "w"
input %v: f32[4,8,8] {R} = parameter "v"
input %x: f32[4,6,8] {S(1)} = user
  %full: f32[4,6,8] {R} = all_gather(%x, tp: {S(1)} -> {R})
)";
  const auto one = overlapped(
      batch + "  %e: f32[4,8,8|0,8,1] {S(2)} = aten::expand(%w, [4, 8, 8]) sizes(size: [4,8,8] {S(2)})\n" +
      "  %y: f32[4,6,8] {S(2)} = aten::bmm(%full, %e)\noutput %y = user\n");
  EXPECT_EQ(one.lines, std::vector<std::string>{"%full: fused with 1 matmul"});
  EXPECT_NE(one.program.find("aten::squeeze.dim(%w, 0)"), std::string::npos) << one.program;
  expect_not_overlapped(
      batch + "  %y: f32[4,6,8] {R} = aten::bmm(%full, %v)\noutput %y = user\n",
      "%y: its right-hand side is another matrix for every one of a batch");
}

} // namespace gather_consumers_test

} // namespace weft::graph
