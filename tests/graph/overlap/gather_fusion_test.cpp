#include "weft/graph/overlap/gather_fusion.h"

#include "tests/support/overlapped.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace gather_fusion_test {
using testing::expect_overlapped;
using testing::expect_same_overlapped;
using testing::overlapped;

TEST(GatherFusion, TheMatmulsOfOneGatherAreOneOperator) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %wq: f32[16,8] {S(0)} = parameter "q.weight"
input %wk: f32[4,8] {S(0)} = parameter "k.weight"
input %bk: f32[4] {S(0)} = parameter "k.bias"
input %x: f32[4,6,8] {S(1)} = user
  %full: f32[4,6,8] {R} = all_gather(%x, tp: {S(1)} -> {R})
  %q: f32[4,6,16] {S(2)} = aten::linear(%full, %wq) in q
  %k: f32[4,6,4] {S(2)} = aten::linear(%full, %wk, %bk) in k
output %q = user
output %k = user
)",
      R"(program @ mesh(tp=2)
input %wq: f32[16,8] {S(0)} = parameter "q.weight"
input %wk: f32[4,8] {S(0)} = parameter "k.weight"
input %bk: f32[4] {S(0)} = parameter "k.bias"
input %x: f32[4,6,8] {S(1)} = user
  %permute: f32[8,16|1,8] {S(1)} = aten::permute(%wq, [1, 0]) in q
  %permute_1: f32[8,4|1,8] {S(1)} = aten::permute(%wk, [1, 0]) in q
  [%all_gather_matmul: f32[4,6,16] {S(2)}, %all_gather_matmul_1: f32[4,6,4] {S(2)}] = weft::all_gather_matmul(%x, [%permute, %permute_1], [None, %bk], 1, None, 1, False, "tp") in q because "an all_gather over tp overlaps it"
output %all_gather_matmul = user
output %all_gather_matmul_1 = user
)");
}

TEST(GatherFusion, OtherUsesGetTheGatheredValue) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %x: f32[4,8] {S(0)} = user
  %full: f32[4,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %y: f32[4,8] {S(1)} = aten::mm(%full, %w)
  %z: f32[4,8] {R} = aten::relu(%full)
output %y = user
output %z = user
output %full = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %x: f32[4,8] {S(0)} = user
  [%all_gather_matmul: f32[4,8] {S(1)}, %gathered: f32[4,8] {R}] = weft::all_gather_matmul(%x, [%w], [], 0, None, 1, True, "tp") because "an all_gather over tp overlaps it"
  %z: f32[4,8] {R} = aten::relu(%gathered)
output %all_gather_matmul = user
output %z = user
output %gathered = user
)");
}

TEST(GatherFusion, ViewsAroundAMatmulAreLookedThrough) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,16] {S(1)} = parameter "w"
input %b: f32[16] {S(0)} = parameter "b"
input %x: f32[4,6,8] {S(1)} = user
  %full: f32[4,6,8] {R} = all_gather(%x, tp: {S(1)} -> {R})
  %rows: f32[24,8] {R} = aten::view(%full, [24, 8]) sizes(size: [24,8] {R})
  %mm: f32[24,16] {S(1)} = aten::addmm(%b, %rows, %w)
  %back: f32[4,6,16] {S(2)} = aten::view(%mm, [4, 6, 16]) sizes(size: [4,6,16] {S(2)})
  %sum: f32[24,16] {S(1)} = aten::relu(%mm)
output %back = user
output %sum = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,16] {S(1)} = parameter "w"
input %b: f32[16] {S(0)} = parameter "b"
input %x: f32[4,6,8] {S(1)} = user
  [%all_gather_matmul: f32[4,6,16] {S(2)}] = weft::all_gather_matmul(%x, [%w], [%b], 1, None, 1, False, "tp") because "an all_gather over tp overlaps it"
  %reshape: f32[24,16] {S(1)} = aten::reshape(%all_gather_matmul, [24, 16]) sizes(shape: [24,16] {S(1)})
  %sum: f32[24,16] {S(1)} = aten::relu(%reshape)
output %all_gather_matmul = user
output %sum = user
)");
}

TEST(GatherFusion, CastsAndTransposesOfAllUsesHappenToTheShard) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: bf16[4,16] {S(1)} = parameter "w"
input %x: f32[4,8] {S(1)} = user
  %full: f32[4,8] {R} = all_gather(%x, tp: {S(1)} -> {R})
  %short: bf16[4,8] {R} = aten::_to_copy(%full, dtype=bf16)
  %turned: bf16[8,4|1,8] {R} = aten::t(%short)
  %y: bf16[8,16] {S(1)} = aten::mm(%turned, %w)
output %y = user
)",
      R"(program @ mesh(tp=2)
input %w: bf16[4,16] {S(1)} = parameter "w"
input %x: f32[4,8] {S(1)} = user
  %_to_copy: bf16[4,8] {S(1)} = aten::_to_copy(%x, dtype=bf16)
  %permute: bf16[8,4|1,8] {S(0)} = aten::permute(%_to_copy, [1, 0])
  [%all_gather_matmul: bf16[8,16] {S(1)}] = weft::all_gather_matmul(%permute, [%w], [], 0, None, 1, False, "tp") because "an all_gather over tp overlaps it"
output %all_gather_matmul = user
)");
}

TEST(GatherFusion, OperandsThatComeLaterAreMovedBefore) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %v: f32[8,8] {R} = parameter "v"
input %w: f32[8,8] {S(0)} = parameter "w"
input %b: f32[8] {S(0)} = parameter "b"
input %x: f32[4,8] {S(0)} = user
  %full: f32[4,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %y: f32[4,8] {R} = aten::mm(%full, %v)
  %c: f32[8] {S(0)} = aten::neg(%b)
  %u: f32[8,8] {S(0)} = aten::relu(%w)
  %z: f32[4,8] {S(1)} = aten::linear(%full, %u, %c)
output %y = user
output %z = user
)",
      R"(program @ mesh(tp=2)
input %v: f32[8,8] {R} = parameter "v"
input %w: f32[8,8] {S(0)} = parameter "w"
input %b: f32[8] {S(0)} = parameter "b"
input %x: f32[4,8] {S(0)} = user
  %c: f32[8] {S(0)} = aten::neg(%b)
  %u: f32[8,8] {S(0)} = aten::relu(%w)
  %permute: f32[8,8|1,8] {S(1)} = aten::permute(%u, [1, 0])
  [%all_gather_matmul: f32[4,8] {R}, %all_gather_matmul_1: f32[4,8] {S(1)}] = weft::all_gather_matmul(%x, [%v, %permute], [None, %c], 0, None, 1, False, "tp") because "an all_gather over tp overlaps it"
output %all_gather_matmul = user
output %all_gather_matmul_1 = user
)");
}

TEST(GatherFusion, AMatmulThatNeedsTheGatheredValueTwiceTakesItFromTheOperator) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %x: f32[8,8] {S(0)} = user
  %full: f32[8,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %y: f32[8,8] {S(1)} = aten::mm(%full, %w)
  %n: f32[8,8] {R} = aten::neg(%full)
  %z: f32[8,8] {R} = aten::mm(%full, %n)
  %s: f32[8,8] {R} = aten::mm(%full, %full)
output %y = user
output %z = user
output %s = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(1)} = parameter "w"
input %x: f32[8,8] {S(0)} = user
  [%all_gather_matmul: f32[8,8] {S(1)}, %gathered: f32[8,8] {R}] = weft::all_gather_matmul(%x, [%w], [], 0, None, 1, True, "tp") because "an all_gather over tp overlaps it"
  %n: f32[8,8] {R} = aten::neg(%gathered)
  %z: f32[8,8] {R} = aten::mm(%gathered, %n)
  %s: f32[8,8] {R} = aten::mm(%gathered, %gathered)
output %all_gather_matmul = user
output %z = user
output %s = user
)");
}

TEST(GatherFusion, UnevenShardsStateTheirTotalSize) {
  const auto result = overlapped(R"(program @ mesh(tp=2)
symbol s0 = 5 in [2, 64]
input %w: f32[8,8] {S(1)} = parameter "w"
input %x: f32[5,8] {S(0)} = user
input %y: f32[s0,8] {S(0)} = user
  %a: f32[5,8] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %b: f32[5,8] {S(1)} = aten::mm(%a, %w)
  %c: f32[s0,8] {R} = all_gather(%y, tp: {S(0)} -> {R})
  %d: f32[s0,8] {S(1)} = aten::mm(%c, %w)
output %b = user
output %d = user
)");
  EXPECT_NE(result.program.find("(%x, [%w], [], 0, 5, 1, False, \"tp\")"), std::string::npos) << result.program;
  EXPECT_NE(result.program.find("%sym_size: int(s0) = aten::sym_size.int(%y, 0)"), std::string::npos) << result.program;
  EXPECT_NE(result.program.find("(%y, [%w], [], 0, %sym_size, 1, False, \"tp\")"), std::string::npos) << result.program;
}

TEST(GatherFusion, AScaledMatmulKeepsItsScales) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f8e4m3fn[16,16|1,16] {R} = parameter "w"
input %sx: f32[] {R} = user
input %sw: f32[] {R} = user
input %x: f8e4m3fn[16,16] {S(0)} = user
  %full: f8e4m3fn[16,16] {R} = all_gather(%x, tp: {S(0)} -> {R})
  %y: bf16[16,16] {R} = aten::_scaled_mm(%full, %w, %sx, %sw, out_dtype=bf16)
output %y = user
)",
      R"(program @ mesh(tp=2)
input %w: f8e4m3fn[16,16|1,16] {R} = parameter "w"
input %sx: f32[] {R} = user
input %sw: f32[] {R} = user
input %x: f8e4m3fn[16,16] {S(0)} = user
  [%all_gather_scaled_matmul: bf16[16,16] {R}] = weft::all_gather_scaled_matmul(%x, %sx, [%w], [%sw], [], [], [bf16], [False], 0, None, 1, False, "tp") because "an all_gather over tp overlaps it"
output %all_gather_scaled_matmul = user
)");
}

TEST(GatherFusion, ProgramsOfPyTorchAreFusedAsTheyAre) {
  expect_overlapped(
      R"(program
input %w: f32[8,4] = user
input %x: f32[2,3,8] = user
  %g: f32[4,3,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
  %wait: f32[4,3,8] = _c10d_functional::wait_tensor(%g)
  [%a: f32[2,3,8], %b: f32[2,3,8]] = aten::split.Tensor(%wait, 2)
  %cat: f32[2,6,8] = aten::cat([%a, %b], 1)
  %rows: f32[12,8] = aten::reshape(%cat, [12, 8])
  %mm: f32[12,4] = aten::mm(%rows, %w)
  %y: f32[2,6,4] = aten::reshape(%mm, [2, 6, 4])
output %y = user
)",
      R"(program
input %w: f32[8,4] = user
input %x: f32[2,3,8] = user
  [%all_gather_matmul: f32[2,6,4]] = weft::all_gather_matmul(%x, [%w], [], 1, None, 1, False, "0")
output %all_gather_matmul = user
)");
}

TEST(GatherFusion, TheNumbersAreTheSame) {
  for (const std::string ranks : {"2", "3", "4"}) {
    const auto decisions = expect_same_overlapped("program @ mesh(tp=" + ranks + ")" + R"(
input %wq: f32[16,8] {S(0)} = parameter "q.weight"
input %wk: f32[4,8] {S(0)} = parameter "k.weight"
input %bk: f32[4] {S(0)} = parameter "k.bias"
input %wo: f32[8,12] {S(1)} = parameter "o"
input %x: f32[4,6,8] {S(1)} = user
input %z: f32[10,8] {S(1)} = user
  %full: f32[4,6,8] {R} = all_gather(%x, tp: {S(1)} -> {R})
  %q: f32[4,6,16] {S(2)} = aten::linear(%full, %wq) in q
  %rows: f32[24,8] {R} = aten::view(%full, [24, 8]) sizes(size: [24,8] {R})
  %t: f32[8,4|1,8] {S(1)} = aten::t(%wk)
  %k: f32[24,4] {S(1)} = aten::addmm(%bk, %rows, %t) in k
  %n: f32[4,6,8] {R} = aten::neg(%full)
  %u: f32[10,8] {R} = all_gather(%z, tp: {S(1)} -> {R})
  %v: f32[10,12] {S(1)} = aten::mm(%u, %wo)
output %q = user
output %k = user
output %n = user
output %v = user
)");
    ASSERT_EQ(decisions.size(), 2);
    EXPECT_TRUE(decisions[0].fused && decisions[1].fused);
    EXPECT_EQ(decisions[0].matmuls, 2);
  }
}

TEST(GatherFusion, OnAMeshOfTwoDimsTheOtherOneStaysSharded) {
  const auto decisions = expect_same_overlapped(R"(program @ mesh(dp=2,tp=2)
input %w: f32[16,8] {R, S(0)} = parameter "w"
input %x: f32[4,6,8] {S(0), S(1)} = user
input %y: f32[8,8] {S(0), S(0)} = user
  %full: f32[4,6,8] {S(0), R} = all_gather(%x, tp: {S(0), S(1)} -> {S(0), R})
  %rows: f32[24,8] {S(0), R} = aten::view(%full, [24, 8]) sizes(size: [24,8] {S(0), R})
  %q: f32[24,16] {S(0), S(1)} = aten::linear(%rows, %w)
  %both: f32[8,8] {S(0), R} = all_gather(%y, tp: {S(0), S(0)} -> {S(0), R})
  %z: f32[8,16] {S(0), S(1)} = aten::linear(%both, %w)
output %q = user
output %z = user
)");
  ASSERT_EQ(decisions.size(), 2);
  EXPECT_TRUE(decisions[0].fused) << decisions[0].reason;
  EXPECT_TRUE(decisions[1].fused) << decisions[1].reason;
}

} // namespace gather_fusion_test

} // namespace weft::graph
