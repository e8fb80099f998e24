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
