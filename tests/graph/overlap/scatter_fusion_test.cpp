#include "weft/graph/overlap/scatter_fusion.h"

#include "tests/support/overlapped.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace scatter_fusion_test {
using testing::expect_not_overlapped;
using testing::expect_overlapped;
using testing::expect_same_overlapped;
using testing::overlapped;

TEST(ScatterFusion, AMatmulAndItsScatterAreOneOperator) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,16] {S(1)} = parameter "o.weight"
input %b: f32[8] {P(sum)} = parameter "o.bias"
input %x: f32[4,6,16] {S(2)} = user
  %y: f32[4,6,8] {P(sum)} = aten::linear(%x, %w, %b) in o
  %z: f32[4,6,8] {S(1)} = reduce_scatter(%y, tp: {P(sum)} -> {S(1)})
output %z = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,16] {S(1)} = parameter "o.weight"
input %b: f32[8] {P(sum)} = parameter "o.bias"
input %x: f32[4,6,16] {S(2)} = user
  %permute: f32[16,8|1,16] {S(0)} = aten::permute(%w, [1, 0]) in o
  %matmul_reduce_scatter: f32[4,6,8] {S(1)} = weft::matmul_reduce_scatter([%x], [%permute], %b, "sum", 1, 1, "tp") in o because "a reduce_scatter over tp overlaps it"
output %matmul_reduce_scatter = user
)");
}

TEST(ScatterFusion, TheSumOfSeveralMatmulsIsOneOperator) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %v: f32[16,8] {S(0)} = parameter "v"
input %w: f32[4,8] {S(0)} = parameter "w"
input %x: f32[4,6,16] {S(2)} = user
input %y: f32[24,4] {S(1)} = user
  %rows: f32[24,16] {S(1)} = aten::view(%x, [24, 16]) sizes(size: [24,16] {S(1)})
  %a: f32[24,8] {P(sum)} = aten::mm(%rows, %v)
  %c: f32[4,6,8] {P(sum)} = aten::view(%a, [4, 6, 8]) sizes(size: [4,6,8] {P(sum)})
  %b: f32[24,8] {P(sum)} = aten::mm(%y, %w)
  %d: f32[4,6,8] {P(sum)} = aten::view(%b, [4, 6, 8]) sizes(size: [4,6,8] {P(sum)})
  %e: f32[4,6,8] {P(sum)} = aten::add.Tensor(%c, %d)
  %z: f32[4,6,8] {S(1)} = reduce_scatter(%e, tp: {P(sum)} -> {S(1)})
output %z = user
)",
      R"(program @ mesh(tp=2)
input %v: f32[16,8] {S(0)} = parameter "v"
input %w: f32[4,8] {S(0)} = parameter "w"
input %x: f32[4,6,16] {S(2)} = user
input %y: f32[24,4] {S(1)} = user
  %reshape: f32[4,6,4] {S(2)} = aten::reshape(%y, [4, 6, 4]) sizes(shape: [4,6,4] {S(2)})
  %matmul_reduce_scatter: f32[4,6,8] {S(1)} = weft::matmul_reduce_scatter([%x, %reshape], [%v, %w], None, "sum", 1, 1, "tp") because "a reduce_scatter over tp overlaps it"
output %matmul_reduce_scatter = user
)");
}

TEST(ScatterFusion, AViewWithOtherLeadingDimsThanTheLeftHandSideIsOfTheLeftHandSide) {
  // [2,8,32] times a matrix, viewed as [4,4,16]: the view is scattered.
  expect_overlapped(
      R"(program
input %w: f32[32,16] = user
input %x: f32[2,8,32] = user
  %rows: f32[16,32] = aten::reshape(%x, [16, 32])
  %mm: f32[16,16] = aten::mm(%rows, %w)
  %shown: f32[4,4,16] = aten::reshape(%mm, [4, 4, 16])
  %r: f32[2,4,16] = _c10d_functional::reduce_scatter_tensor(%shown, "sum", 2, "0")
  %z: f32[2,4,16] = _c10d_functional::wait_tensor(%r)
output %z = user
)",
      R"(program
input %w: f32[32,16] = user
input %x: f32[2,8,32] = user
  %rows: f32[16,32] = aten::reshape(%x, [16, 32])
  %reshape: f32[4,4,32] = aten::reshape(%rows, [4, 4, 32])
  %matmul_reduce_scatter: f32[2,4,16] = weft::matmul_reduce_scatter([%reshape], [%w], None, "sum", 0, 1, "0")
output %matmul_reduce_scatter = user
)");
}

TEST(ScatterFusion, WhatWasSavedBeforeTheWaitIsTheSameValue) {
  expect_overlapped(
      R"(program
input %w: f32[8,4] = user
input %x: f32[6,8] = user
  %mm: f32[6,4] = aten::mm(%x, %w)
  [%a: f32[6,2], %b: f32[6,2]] = aten::split.Tensor(%mm, 2, 1)
  %cat: f32[12,2] = aten::cat([%a, %b])
  %r: f32[6,2] = _c10d_functional::reduce_scatter_tensor(%cat, "avg", 2, "0")
  %z: f32[6,2] = _c10d_functional::wait_tensor(%r)
output %z = user
output %r = user
)",
      R"(program
input %w: f32[8,4] = user
input %x: f32[6,8] = user
  %matmul_reduce_scatter: f32[6,2] = weft::matmul_reduce_scatter([%x], [%w], None, "avg", 1, 1, "0")
output %matmul_reduce_scatter = user
output %matmul_reduce_scatter = user
)");
}

TEST(ScatterFusion, AScaledMatmulKeepsItsScales) {
  expect_overlapped(
      R"(program
input %w: f8e4m3fn[16,16|1,16] = user
input %sx: f32[] = user
input %sw: f32[] = user
input %x: f8e4m3fn[2,8,16] = user
  %rows: f8e4m3fn[16,16] = aten::reshape(%x, [16, 16])
  %mm: bf16[16,16] = aten::_scaled_mm(%rows, %w, %sx, %sw, out_dtype=bf16, use_fast_accum=True)
  %y: bf16[2,8,16] = aten::reshape(%mm, [2, 8, 16])
  %r: bf16[1,8,16] = _c10d_functional::reduce_scatter_tensor(%y, "sum", 2, "0")
  %z: bf16[1,8,16] = _c10d_functional::wait_tensor(%r)
output %z = user
)",
      R"(program
input %w: f8e4m3fn[16,16|1,16] = user
input %sx: f32[] = user
input %sw: f32[] = user
input %x: f8e4m3fn[2,8,16] = user
  %scaled_matmul_reduce_scatter: bf16[1,8,16] = weft::scaled_matmul_reduce_scatter(%x, %w, %sx, %sw, None, None, bf16, True, "sum", 0, 1, "0")
output %scaled_matmul_reduce_scatter = user
)");
}

TEST(ScatterFusion, ASumThatIsCastIsReducedAsItIsCast) {
  expect_overlapped(
      R"(program
input %w: bf16[8,4] = user
input %x: bf16[6,8] = user
  %mm: bf16[6,4] = aten::mm(%x, %w)
  %c: f32[6,4] = aten::_to_copy(%mm, dtype=f32)
  %r: f32[3,4] = _c10d_functional::reduce_scatter_tensor(%c, "sum", 2, "0")
  %z: f32[3,4] = _c10d_functional::wait_tensor(%r)
output %z = user
)",
      R"(program
input %w: bf16[8,4] = user
input %x: bf16[6,8] = user
  %matmul_reduce_scatter: f32[3,4] = weft::matmul_reduce_scatter([%x], [%w], None, "sum", 0, 1, "0", f32)
output %matmul_reduce_scatter = user
)");
}

TEST(ScatterFusion, InsteadOfAProductItsShardIsPermuted) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,4] {S(0)} = parameter "w"
input %x: f32[6,8] {S(1)} = user
  %y: f32[6,4] {P(sum)} = aten::mm(%x, %w)
  %t: f32[4,6|1,4] {P(sum)} = aten::t(%y)
  %z: f32[4,6] {S(0)} = reduce_scatter(%t, tp: {P(sum)} -> {S(0)})
output %z = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,4] {S(0)} = parameter "w"
input %x: f32[6,8] {S(1)} = user
  %matmul_reduce_scatter: f32[6,4] {S(1)} = weft::matmul_reduce_scatter([%x], [%w], None, "sum", 1, 1, "tp") because "a reduce_scatter over tp overlaps it"
  %permute: f32[4,6|1,4] {S(0)} = aten::permute(%matmul_reduce_scatter, [1, 0])
  %clone: f32[4,6] {S(0)} = aten::clone(%permute, memory_format=contiguous_format)
output %clone = user
)");
}

TEST(ScatterFusion, OnlySumsAndAveragesAre) {
  expect_not_overlapped(
      R"(program
input %w: f32[8,4] = user
input %x: f32[6,8] = user
  %mm: f32[6,4] = aten::mm(%x, %w)
  %r: f32[3,4] = _c10d_functional::reduce_scatter_tensor(%mm, "max", 2, "0")
  %z: f32[3,4] = _c10d_functional::wait_tensor(%r)
output %z = user
)",
      "it reduces by max, not by sum or avg");
}

TEST(ScatterFusion, AnAllReduceOfAProductIsAScatterAndAGather) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,16] {S(1)} = parameter "o.weight"
input %x: f32[3,6,16] {S(2)} = user
  %y: f32[3,6,8] {P(sum)} = aten::linear(%x, %w) in o
  %z: f32[3,6,8] {R} = all_reduce(%y, tp: {P(sum)} -> {R})
output %z = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,16] {S(1)} = parameter "o.weight"
input %x: f32[3,6,16] {S(2)} = user
  %permute: f32[16,8|1,16] {S(0)} = aten::permute(%w, [1, 0]) in o
  %matmul_reduce_scatter: f32[3,6,8] {S(1)} = weft::matmul_reduce_scatter([%x], [%permute], None, "sum", 1, 1, "tp") in o because "half of an all_reduce over tp overlaps it"
  %all_gather: f32[3,6,8] {R} = all_gather(%matmul_reduce_scatter, tp: {S(1)} -> {R}) in o
output %all_gather = user
)");
}

TEST(ScatterFusion, ARanksAllReduceIsSplitAlongItsFirstDim) {
  expect_overlapped(
      R"(program @ mesh(tp=2)
input %w: f32[8,4] = user
input %x: f32[6,8] = user
  %mm: f32[6,4] = aten::mm(%x, %w)
  %r: f32[6,4] = _c10d_functional::all_reduce(%mm, "sum", "tp")
  %z: f32[6,4] = _c10d_functional::wait_tensor(%r)
output %z = user
)",
      R"(program @ mesh(tp=2)
input %w: f32[8,4] = user
input %x: f32[6,8] = user
  %matmul_reduce_scatter: f32[3,4] = weft::matmul_reduce_scatter([%x], [%w], None, "sum", 0, 1, "tp")
  %all_gather_into_tensor: f32[6,4] = _c10d_functional::all_gather_into_tensor(%matmul_reduce_scatter, 2, "tp")
  %wait_tensor: f32[6,4] = _c10d_functional::wait_tensor(%all_gather_into_tensor)
output %wait_tensor = user
)");
}

TEST(ScatterFusion, ARanksAllReduceOfUnevenShardsOrOfAnUnknownGroupIsNot) {
  const auto program = [](const std::string& mesh, const std::string& rows) {
    return "program" + mesh + "\ninput %w: f32[8,4] = user\ninput %x: f32[" + rows + ",8] = user\n  %mm: f32[" + rows +
        ",4] = aten::mm(%x, %w)\n  %r: f32[" + rows +
        ",4] = _c10d_functional::all_reduce(%mm, \"sum\", \"tp\")\n  %z: f32[" + rows +
        ",4] = _c10d_functional::wait_tensor(%r)\noutput %z = user\n";
  };
  expect_not_overlapped(program(" @ mesh(tp=2)", "5"), "its first dim is not divided by 2");
  expect_not_overlapped(
      program("", "6"), "the number of members of tp is not known: it is no dim of the program's mesh");
}

TEST(ScatterFusion, TheNumbersAreTheSame) {
  for (const std::string ranks : {"2", "3", "4"}) {
    const auto decisions = expect_same_overlapped("program @ mesh(tp=" + ranks + ")" + R"(
input %v: f32[16,8] {S(0)} = parameter "v"
input %w: f32[4,8] {S(0)} = parameter "w"
input %x: f32[4,6,16] {S(2)} = user
input %y: f32[24,4] {S(1)} = user
  %rows: f32[24,16] {S(1)} = aten::view(%x, [24, 16]) sizes(size: [24,16] {S(1)})
  %a: f32[24,8] {P(sum)} = aten::mm(%rows, %v)
  %c: f32[4,6,8] {P(sum)} = aten::view(%a, [4, 6, 8]) sizes(size: [4,6,8] {P(sum)})
  %b: f32[24,8] {P(sum)} = aten::mm(%y, %w)
  %d: f32[4,6,8] {P(sum)} = aten::view(%b, [4, 6, 8]) sizes(size: [4,6,8] {P(sum)})
  %e: f32[4,6,8] {P(sum)} = aten::add.Tensor(%c, %d)
  %z: f32[4,6,8] {S(1)} = reduce_scatter(%e, tp: {P(sum)} -> {S(1)})
  %f: f32[24,8] {P(sum)} = aten::mm(%rows, %v)
  %g: f32[24,8] {S(1)} = reduce_scatter(%f, tp: {P(sum)} -> {S(1)})
  %h: f32[24,8] {P(sum)} = aten::mm(%y, %w)
  %i: f32[24,8] {R} = all_reduce(%h, tp: {P(sum)} -> {R})
output %z = user
output %g = user
output %i = user
)");
    ASSERT_EQ(decisions.size(), 4);
    EXPECT_TRUE(decisions[0].fused) << decisions[0].reason;
    EXPECT_TRUE(decisions[1].fused) << decisions[1].reason;
    EXPECT_TRUE(decisions[2].fused) << decisions[2].reason;
    EXPECT_EQ(decisions[3].reason, "no matmul takes what is gathered");
  }
}

TEST(ScatterFusion, TheNumbersOfAPermutedProductAreTheSame) {
  for (const std::string ranks : {"2", "3"}) {
    const auto decisions = expect_same_overlapped("program @ mesh(tp=" + ranks + ")" + R"(
input %w: f32[16,8] {S(0)} = parameter "w"
input %x: f32[4,6,16] {S(2)} = user
  %y: f32[4,6,8] {P(sum)} = aten::matmul(%x, %w)
  %p: f32[6,8,4|8,1,48] {P(sum)} = aten::permute(%y, [1, 2, 0])
  %z: f32[6,8,4|8,1,48] {S(0)} = reduce_scatter(%p, tp: {P(sum)} -> {S(0)})
  %u: f32[4,6,8] {P(sum)} = aten::matmul(%x, %w)
  %q: f32[8,6,4|1,8,48] {P(sum)} = aten::transpose.int(%u, 0, 2)
  %v: f32[8,6,4|1,8,48] {S(0)} = reduce_scatter(%q, tp: {P(sum)} -> {S(0)})
output %z = user
output %v = user
)");
    ASSERT_EQ(decisions.size(), 2);
    EXPECT_TRUE(decisions[0].fused) << decisions[0].reason;
    EXPECT_TRUE(decisions[1].fused) << decisions[1].reason;
  }
}

TEST(ScatterFusion, TheNumbersOfACastSumAreTheSame) {
  for (const std::string ranks : {"2", "3"}) {
    const auto decisions = expect_same_overlapped("program @ mesh(tp=" + ranks + ")" + R"(
input %v: bf16[16,8] {S(0)} = parameter "v"
input %w: f32[16,8] {S(0)} = parameter "w"
input %x: bf16[6,16] {S(1)} = user
input %y: f32[6,16] {S(1)} = user
  %a: bf16[6,8] {P(sum)} = aten::mm(%x, %v)
  %b: f32[6,8] {P(sum)} = aten::_to_copy(%a, dtype=f32)
  %c: f32[6,8] {S(0)} = reduce_scatter(%b, tp: {P(sum)} -> {S(0)})
  %d: f32[6,8] {P(sum)} = aten::mm(%y, %w)
  %e: bf16[6,8] {P(sum)} = aten::_to_copy(%d, dtype=bf16)
  %f: bf16[6,8] {S(1)} = reduce_scatter(%e, tp: {P(sum)} -> {S(1)})
output %c = user
output %f = user
)");
    ASSERT_EQ(decisions.size(), 2);
    EXPECT_TRUE(decisions[0].fused) << decisions[0].reason;
    EXPECT_TRUE(decisions[1].fused) << decisions[1].reason;
  }
}

} // namespace scatter_fusion_test

} // namespace weft::graph
