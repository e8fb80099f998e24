#include "weft/graph/ir/clone.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace clone_test {
TEST(Clone, IsTheSameProgramAndOneOfItsOwn) {
  const auto program = parse_program(R"(
program @ mesh(tp=2)
symbol s0 = 4 in [2, 64]
input %w: f32[8,8] {S(0)} = parameter "w"
input %x: f32[s0,8] {R} = user
  %linear: f32[s0,8] {S(1)} = aten::linear(%x, %w) in up
  %all_gather: f32[s0,8] {R} = all_gather(%linear, tp: {S(1)} -> {R})
  [%a: f32[s0,4] {R}, %b: f32[s0,4] {R}] = aten::chunk(%all_gather, 2, 1)
output %a = user
output %b = user
)");
  auto copy = clone(program);
  verify(copy);
  EXPECT_EQ(to_string(copy), to_string(program));
  copy.graph->first()->set_operand(1, copy.inputs[0].value);
  copy.inputs[1].value->layout = Layout({Shard(0)});
  EXPECT_NE(to_string(copy), to_string(program));
  EXPECT_EQ(program.inputs[1].value->layout->to_string(), "{R}");
}

} // namespace clone_test

} // namespace weft::graph
