#include "weft/graph/ir/unknown_call.h"

#include "tests/support/overlapped.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/simplify/dead_code.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace unknown_call_test {
TEST(UnknownCall, StaysWhereItIsWithItsText) {
  const std::string text = R"(program
input %x: f32[4] = user
input %n: int = user
  %y: f32[4] = aten::relu(%x)
  [%a: f32[4], %b: f32[4]] = weft::unknown_call([%y], [%n])
  %z: f32[4] = aten::relu(%b)
output %z = user
)";
  auto program = parse_program(text);
  verify(program);
  EXPECT_EQ(program.graph->first()->next()->op()->operator_name(), unknown_call().operator_name());
  EXPECT_FALSE(dead_code(*program.graph));
  EXPECT_EQ(to_string(program), text);
}

TEST(UnknownCall, MayWriteToItsTensorsAndReturnThem) {
  const auto gathered = [](const std::string& call) {
    return "program\ninput %w: f32[8,4] = user\ninput %x: f32[2,8] = user\n"
           "  %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, \"0\")\n"
           "  %f: f32[4,8] = _c10d_functional::wait_tensor(%g)\n" +
        call + "  %y: f32[4,4] = aten::mm(%f, %w)\noutput %y = user\n";
  };
  testing::expect_not_overlapped(
      gathered("  [%u: f32[4,8]] = weft::unknown_call([%f], [])\n"), "it is written to in between");
  EXPECT_EQ(
      testing::overlapped(gathered("  [%u: f32[8,4]] = weft::unknown_call([%w], [])\n")).lines,
      std::vector<std::string>{"%g: fused with 1 matmul"});
}

} // namespace unknown_call_test

} // namespace weft::graph
