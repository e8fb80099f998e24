#include "weft/graph/analysis/matmul_call.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace matmul_call_test {
std::string text_of(const std::string& node) {
  static const std::string inputs = R"(program
input %x: f32[2,3,4] = user
input %m: f32[3,4] = user
input %w: f32[4,5] = user
input %lw: f32[5,4] = user
input %b: f32[5] = user
input %s: f32[] = user
input %batch: f32[2,4,5] = user
input %one: f32[1,4,5] = user
)";
  auto program = parse_program(inputs + "  " + node + "\noutput %y = user\n");
  const auto call = matmul_of(*program.graph->return_node()->previous());
  if (!call) {
    return "none";
  }
  if (!call->refused.empty()) {
    return call->refused;
  }
  const std::string form = call->form == MatmulCall::Form::AsIs ? ""
      : call->form == MatmulCall::Form::Transposed              ? "^T"
                                                                : "[0]";
  return call->input->name() + " @ " + call->other->name() + form +
      (call->bias == nullptr ? "" : " + " + call->bias->name()) +
      (call->is_scaled ? " scaled by " + call->input_scale->name() : "") + " of " + call->columns().to_string();
}

TEST(MatmulCall, EveryOperatorIsOneOfRowsAndAMatrix) {
  EXPECT_EQ(text_of("%y: f32[3,5] = aten::mm(%m, %w)"), "m @ w of 5");
  EXPECT_EQ(text_of("%y: f32[3,5] = aten::addmm(%b, %m, %w)"), "m @ w + b of 5");
  EXPECT_EQ(text_of("%y: f32[2,3,5] = aten::matmul(%x, %w)"), "x @ w of 5");
  EXPECT_EQ(text_of("%y: f32[2,3,5] = aten::linear(%x, %lw, %b)"), "x @ lw^T + b of 5");
  EXPECT_EQ(text_of("%y: f32[2,3,5] = aten::linear(%x, %lw)"), "x @ lw^T of 5");
  EXPECT_EQ(text_of("%y: f32[3,5] = aten::_scaled_mm(%m, %w, %s, %s)"), "m @ w scaled by s of 5");
  EXPECT_EQ(text_of("%y: f32[2,3,4] = aten::relu(%x)"), "none");
}

TEST(MatmulCall, ABatchRepeatsOneMatrixOrIsNone) {
  EXPECT_EQ(
      text_of("%y: f32[2,3,5] = aten::bmm(%x, %batch)"),
      "its right-hand side is another matrix for every one of a batch");
  EXPECT_EQ(
      text_of("%e: f32[2,4,5|0,5,1] = aten::expand(%w, [2, 4, 5])\n  %y: f32[2,3,5] = aten::bmm(%x, %e)"),
      "x @ w of 5");
  EXPECT_EQ(
      text_of("%e: f32[2,4,5|0,5,1] = aten::expand(%one, [2, 4, 5])\n  %y: f32[2,3,5] = aten::bmm(%x, %e)"),
      "x @ one[0] of 5");
  EXPECT_EQ(
      text_of("%u: f32[1,3,4] = aten::unsqueeze(%m, 0)\n  %y: f32[1,3,5] = aten::bmm(%u, %one)"), "u @ one[0] of 5");
}

TEST(MatmulCall, WhatIsNoneOfTheseSaysWhy) {
  EXPECT_EQ(text_of("%y: f32[3,5] = aten::addmm(%b, %m, %w, alpha=2)"), "it has factors, alpha or beta");
  EXPECT_EQ(text_of("%y: f32[3,5] = aten::addmm(%s, %m, %w)"), "what it adds is not one row");
  EXPECT_EQ(text_of("%y: f32[2,3,5] = aten::matmul(%x, %batch)"), "its right-hand side has 3 dims");
  EXPECT_EQ(text_of("%y: f32[2,5] = aten::matmul(%b, %lw)"), "its left-hand side has 1 dims");
}

} // namespace matmul_call_test

} // namespace weft::graph
