#include "weft/graph/overlap/program_rewriter.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace program_rewriter_test {
Program rows() {
  return parse_program(R"(program @ mesh(dp=2,tp=2)
symbol s0 = 4 in [2, 64]
input %x: f32[s0,6,8] {S(0), S(2)} = user
  %v: f32[6*s0,8] {S(0), S(1)} = aten::reshape(%x, [-1, 8]) sizes(shape: [24,8] {S(0), S(1)})
  %y: f32[6*s0,8] {S(0), S(1)} = aten::relu(%v)
  %z: f32[6*s0,8] {S(0), S(1)} = aten::neg(%y)
output %z = user
)");
}

TEST(ProgramRewriter, NewNodesHaveLayoutsAndLocalSizes) {
  auto program = rows();
  ProgramRewriter rewriter(program);
  auto* x = program.inputs[0].value;
  auto* y = program.graph->first()->next()->output();
  rewriter.insert_before(y->producer()->next(), y->producer()->origin);
  auto* shaped = rewriter.reshape(y, x->tensor().sizes, layout_of_rows(*x, *y, 3));
  auto* turned = rewriter.permute(shaped, {2, 0, 1});
  rewriter.replace_uses(program.graph->return_node()->operand(0), rewriter.permute(turned, {1, 2, 0}));
  rewriter.mark_replaced(program.graph->return_node()->previous());
  EXPECT_TRUE(rewriter.uses(*y).size() == 1) << "that of the node which is replaced does not count";
  rewriter.erase_replaced();
  verify(program);
  const auto text = to_string(program);
  EXPECT_NE(
      text.find("%reshape: f32[s0,6,8] {S(0), S(2)} = aten::reshape(%y, [-1, 6, 8]) sizes(shape: ["), std::string::npos)
      << text;
  EXPECT_NE(
      text.find("%permute: f32[8,s0,6|1,48,8] {S(1), S(0)} = aten::permute(%reshape, [2, 0, 1])"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("aten::neg"), std::string::npos) << text;
}

TEST(ProgramRewriter, AMatrixOfABatchOfOneKeepsItsShardOrder) {
  auto program = parse_program(R"(program @ mesh(dp=2,tp=2)
input %x: f32[1,4,8] {R, R} = user
input %w: f32[1,8,16] {S(2)[1], S(2)[0]} = user
  %y: f32[1,4,16] {S(2)[1], S(2)[0]} = aten::bmm(%x, %w)
output %y = user
)");
  ProgramRewriter rewriter(program);
  auto* const node = program.graph->first();
  rewriter.insert_before(node, node->origin);
  const auto call = matmul_of(*node);
  ASSERT_TRUE(call);
  const auto* matrix = rewriter.matrix_of(*call);
  EXPECT_EQ(matrix->layout->to_string(), "{S(1)[1], S(1)[0]}");
}

TEST(ProgramRewriter, OneSizeAtMostIsNoNumber) {
  EXPECT_TRUE(ProgramRewriter::can_state({Size::symbol("a"), 4}));
  EXPECT_FALSE(ProgramRewriter::can_state({Size::symbol("a"), Size::symbol("b")}));
}

TEST(ProgramRewriter, RowsThatAreShardedInAnotherWayHaveNoLayout) {
  const auto program = parse_program(R"(program @ mesh(tp=2)
input %x: f32[4,6,8] {S(0)} = user
input %y: f32[24,8] {R} = user
  %z: f32[4,6,8] {S(0)} = aten::neg(%x)
output %z = user
output %y = user
)");
  EXPECT_FALSE(layout_of_rows(*program.inputs[0].value, *program.inputs[1].value, 3));
}

} // namespace program_rewriter_test

} // namespace weft::graph
