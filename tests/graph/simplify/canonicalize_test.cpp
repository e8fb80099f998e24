#include "weft/graph/simplify/canonicalize.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace canonicalize_test {
TEST(Canonicalize, ASplitIntoEqualSizesIsOneByTheirSize) {
  auto program = parse_program(R"(
program
input %x: f32[2,8] = user
  [%a: f32[2,4], %b: f32[2,4]] = aten::split_with_sizes(%x, [4, 4], 1)
  [%c: f32[2,5], %d: f32[2,3]] = aten::split_with_sizes(%x, [5, 3], 1)
  %add: f32[2,4] = aten::add.Tensor(%a, %b)
output %add = user
output %c = user
output %d = user
)");
  EXPECT_TRUE(canonicalize(*program.graph));
  const auto text = to_string(program);
  EXPECT_NE(text.find("= aten::split.Tensor(%x, 4, 1)"), std::string::npos) << text;
  EXPECT_NE(text.find("= aten::split_with_sizes(%x, [5, 3], 1)"), std::string::npos) << text;
  EXPECT_FALSE(canonicalize(*program.graph));
}

TEST(Canonicalize, SlicesThatDivideALayersOutputEquallyAreASplit) {
  auto program = parse_program(R"(
program
input %x: f32[2,5] = user
input %w: f32[12,5] = parameter "qkv.weight"
  %y: f32[2,12] = aten::linear(%x, %w)
  %c: f32[2,4] = aten::slice.Tensor(%y, -1, 8, 9223372036854775807)
  %a: f32[2,4] = aten::slice.Tensor(%y, 1, 0, 4)
  %s: f32[2,2] = aten::slice.Tensor(%a, 1, 0, 2)
  %b: f32[2,4] = aten::slice.Tensor(%y, 1, 4, -4)
  %add: f32[2,4] = aten::add.Tensor(%a, %b)
output %add = user
output %c = user
output %s = user
)");
  EXPECT_TRUE(canonicalize(*program.graph));
  const auto text = to_string(program);
  const auto* split = program.graph->first()->next();
  EXPECT_NE(text.find("= aten::split.Tensor(%y, 4, 1)"), std::string::npos) << text;
  EXPECT_EQ(program.graph->return_node()->operand(0)->producer()->operand(1), split->output(1)) << text;
  EXPECT_EQ(program.graph->return_node()->operand(1), split->output(2)) << text;
  EXPECT_EQ(program.graph->return_node()->operand(2)->producer()->operand(0), split->output(0)) << text;
  EXPECT_FALSE(canonicalize(*program.graph));
}

TEST(Canonicalize, OtherSlicesStay) {
  const auto* before = R"(
program
input %x: f32[2,5] = user
input %w: f32[12,5] = parameter "qkv.weight"
  %y: f32[2,12] = aten::linear(%x, %w)
  %a: f32[2,6] = aten::slice.Tensor(%y, 1, 0, 6)
  %b: f32[2,3] = aten::slice.Tensor(%y, 1, 6, 9)
  %c: f32[2,3] = aten::slice.Tensor(%y, 1, 9, 12)
output %a = user
output %b = user
output %c = user
)";
  auto program = parse_program(before);
  EXPECT_FALSE(canonicalize(*program.graph));
}

TEST(Canonicalize, ChecksOfGlobalSizesAreRemoved) {
  auto program = parse_program(R"(
program
input %x: f32[2,8] = user
  aten::_assert_tensor_metadata(%x, [2, 8])
output %x = user
)");
  EXPECT_TRUE(canonicalize(*program.graph));
  EXPECT_TRUE(program.graph->first()->is_return());
}

} // namespace canonicalize_test

} // namespace weft::graph
