#include "weft/graph/overlap/backward_forms.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace backward_forms_test {
void expect_rewritten(std::string_view before, std::string_view after) {
  auto program = parse_program(before);
  verify(program);
  ProgramRewriter rewriter(program);
  rewrite_backward(rewriter);
  rewriter.erase_replaced();
  verify(program);
  EXPECT_EQ(to_string(program), to_string(parse_program(after)));
}

TEST(BackwardForms, TheGradientThatIsScatteredIsAMatmulOfItsOwn) {
  expect_rewritten(
      R"(program @ mesh(tp=2)
input %x: f32[4,6,8] {R} = user
input %w: f32[8,16] {S(1)} = user
input %g: f32[4,6,16] {S(2)} = user
  %dx: f32[4,6,8] {P(sum)}, %dw: f32[8,16] {S(1)} = aten::matmul_backward(%g, %x, %w, [True, True])
  %r: f32[4,6,8] {S(1)} = reduce_scatter(%dx, tp: {P(sum)} -> {S(1)})
output %r = user
output %dw = user
)",
      R"(program @ mesh(tp=2)
input %x: f32[4,6,8] {R} = user
input %w: f32[8,16] {S(1)} = user
input %g: f32[4,6,16] {S(2)} = user
  %permute: f32[16,8|1,16] {S(0)} = aten::permute(%w, [1, 0])
  %matmul: f32[4,6,8] {P(sum)} = aten::matmul(%g, %permute)
  _, %matmul_backward: f32[8,16] {S(1)} = aten::matmul_backward(%g, %x, %w, [False, True])
  %r: f32[4,6,8] {S(1)} = reduce_scatter(%matmul, tp: {P(sum)} -> {S(1)})
output %r = user
output %matmul_backward = user
)");
}

TEST(BackwardForms, OneNextToNoCollectiveStays) {
  const std::string text = R"(program @ mesh(tp=2)
input %x: f32[4,8] {R} = user
input %w: f32[16,8] {R} = user
input %g: f32[4,16] {R} = user
  %dx: f32[4,8] {R}, %dw: f32[16,8] {R}, _ = aten::linear_backward(%x, %g, %w, [True, True, False])
output %dx = user
output %dw = user
)";
  expect_rewritten(text, text);
}

TEST(BackwardForms, ScattersThatAreAddedUpAreOne) {
  expect_rewritten(
      R"(program @ mesh(tp=2)
input %a: f32[4,8] {P(sum)} = user
input %b: f32[4,8] {P(sum)} = user
input %c: f32[4,8] {P(sum)} = user
  %r: f32[4,8] {S(0)} = reduce_scatter(%a, tp: {P(sum)} -> {S(0)})
  %s: f32[4,8] {S(0)} = reduce_scatter(%b, tp: {P(sum)} -> {S(0)})
  %d: f32[4,8] {S(0)} = aten::add.Tensor(%r, %s)
  %t: f32[4,8] {S(0)} = reduce_scatter(%c, tp: {P(sum)} -> {S(0)})
  %e: f32[4,8] {S(0)} = aten::add.Tensor(%d, %t)
output %e = user
)",
      R"(program @ mesh(tp=2)
input %a: f32[4,8] {P(sum)} = user
input %b: f32[4,8] {P(sum)} = user
input %c: f32[4,8] {P(sum)} = user
  %add: f32[4,8] {P(sum)} = aten::add.Tensor(%a, %b)
  %add_1: f32[4,8] {P(sum)} = aten::add.Tensor(%add, %c)
  %reduce_scatter_1: f32[4,8] {S(0)} = reduce_scatter(%add_1, tp: {P(sum)} -> {S(0)})
output %reduce_scatter_1 = user
)");
}

TEST(BackwardForms, OneThatIsNeededByItselfIsNotJoined) {
  const std::string text = R"(program @ mesh(tp=2)
input %a: f32[4,8] {P(sum)} = user
input %b: f32[4,8] {P(sum)} = user
  %r: f32[4,8] {S(0)} = reduce_scatter(%a, tp: {P(sum)} -> {S(0)})
  %s: f32[4,8] {S(0)} = reduce_scatter(%b, tp: {P(sum)} -> {S(0)})
  %d: f32[4,8] {S(0)} = aten::add.Tensor(%r, %s)
output %d = user
output %s = user
)";
  expect_rewritten(text, text);
}

} // namespace backward_forms_test

} // namespace weft::graph
