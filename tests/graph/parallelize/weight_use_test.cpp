#include "weft/graph/parallelize/weight_use.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace weight_use_test {
std::string text_of(nn::ModuleKind kind) {
  return kind == nn::ModuleKind::Linear   ? "linear"
      : kind == nn::ModuleKind::Embedding ? "embedding"
                                          : "transposed linear";
}

/// "linear w of x" for the call that gives the program's output; "none" if it uses no weight.
std::string use_in(const std::string& calls) {
  const auto program = parse_program(
      R"(program
        input %w: f32[6,4] = parameter "up.weight"
        input %b: f32[6] = parameter "up.bias"
        input %x: f32[3,4] = user
        input %r: f32[3,6] = user
        input %s: f32[2,6,4] = parameter "experts.up"
        input %ends: i32[2] = user
        input %i: i64[3] = user
      )" +
      calls + "\noutput %y = user");
  const auto use = weight_use(*program.graph->return_node()->operand(0)->producer(), [&](const Value* value) {
    return value->name() == "w" || value->name() == "s";
  });
  if (!use) {
    return "none";
  }
  return (use->is_stack() ? "stack of " : "") + text_of(use->kind) + " " + use->weight->name() + " of " +
      use->input->name() + ", outputs " + std::to_string(use->output_dim()) + (use->is_left ? ", left" : "");
}

TEST(WeightUse, OfALinearLayerOrAnEmbedding) {
  EXPECT_EQ(use_in("%y: f32[3,6] = aten::linear(%x, %w, %b)"), "linear w of x, outputs 0");
  EXPECT_EQ(use_in("%y: f32[3,4] = aten::embedding(%w, %i)"), "embedding w of i, outputs 0");
}

TEST(WeightUse, OfAProductWithTheTranspose) {
  for (const auto* transposed : {"aten::t(%w)", "aten::numpy_T(%w)", "aten::permute(%w, [1, 0])"}) {
    const auto calls = "%t: f32[4,6] = " + std::string(transposed) + "\n";
    EXPECT_EQ(use_in(calls + "%y: f32[3,6] = aten::matmul(%x, %t)"), "linear w of x, outputs 0") << transposed;
    EXPECT_EQ(use_in(calls + "%y: f32[3,6] = aten::addmm(%b, %x, %t)"), "linear w of x, outputs 0") << transposed;
  }
}

TEST(WeightUse, OfAProductWithAWeightOfInputsByOutputs) {
  EXPECT_EQ(use_in("%y: f32[3,4] = aten::mm(%r, %w)"), "transposed linear w of r, outputs 1");
  EXPECT_EQ(
      use_in("%t: f32[4,6] = aten::t(%w)\n%y: f32[3,4] = aten::linear(%r, %t)"), "transposed linear w of r, outputs 1");
  EXPECT_EQ(use_in("%t: f32[4,6] = aten::t(%w)\n%y: f32[3,6] = aten::embedding(%t, %i)"), "none");
}

TEST(WeightUse, OfAProductWhoseFirstFactorItIs) {
  const auto* columns = "%c: f32[4,3] = aten::t(%x)\n";
  EXPECT_EQ(use_in(columns + std::string("%y: f32[6,3] = aten::matmul(%w, %c)")), "linear w of c, outputs 0, left");
  EXPECT_EQ(
      use_in("%t: f32[4,6] = aten::t(%w)\n%c: f32[6,3] = aten::t(%r)\n%y: f32[4,3] = aten::mm(%t, %c)"),
      "transposed linear w of c, outputs 1, left");
}

TEST(WeightUse, OfAStackOfLayers) {
  for (const auto* transposed : {"aten::mT(%s)", "aten::transpose.int(%s, -2, -1)", "aten::permute(%s, [0, 2, 1])"}) {
    const auto calls = "%t: f32[2,4,6] = " + std::string(transposed) + "\n";
    EXPECT_EQ(use_in(calls + "%y: f32[3,6] = aten::_grouped_mm(%x, %t, %ends)"), "stack of linear s of x, outputs 1")
        << transposed;
  }
  EXPECT_EQ(use_in("%y: f32[3,4] = aten::_grouped_mm(%r, %s, %ends)"), "stack of transposed linear s of r, outputs 2");
  EXPECT_EQ(
      use_in("%t: f32[6,2,4] = aten::transpose.int(%s, 0, 1)\n"
             "%e: f32[6,3,2] = aten::zeros([6, 3, 2])\n"
             "%y: f32[6,3,4] = aten::bmm(%e, %t)"),
      "none");
}

TEST(WeightUse, OfAWeightThatIsCast) {
  EXPECT_EQ(
      use_in("%c: bf16[6,4] = aten::to.dtype(%w, bf16)\n"
             "%h: bf16[3,4] = aten::to.dtype(%x, bf16)\n"
             "%y: bf16[3,6] = aten::linear(%h, %c)"),
      "linear w of h, outputs 0");
}

TEST(WeightUse, NotOfATensorThatIsComputed) {
  EXPECT_EQ(use_in("%n: f32[6,4] = aten::neg(%w)\n%y: f32[3,6] = aten::linear(%x, %n)"), "none");
  EXPECT_EQ(use_in("%y: f32[3,4] = aten::neg(%x)"), "none");
}

} // namespace weight_use_test

} // namespace weft::graph
