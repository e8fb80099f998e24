#include "weft/graph/ir/local_redistribution.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace local_redistribution_test {

TEST(LocalRedistribution, IsTextThatParsesBack) {
  const std::string text = R"text(program @ mesh(tp=2)
input %x: f32[4,16] = user
  %y: f32[8,16] = weft::redistribute_local(%x, [8, 16], "{S(0)}", "{R}")
  %z: f32[8,16] = aten::relu(%y)
output %z = user
)text";
  const auto program = parse_program(text);
  EXPECT_EQ(to_string(program), text);
  const auto* node = program.graph->first();
  EXPECT_TRUE(is_local_redistribution(*node));
  EXPECT_FALSE(is_local_redistribution(*node->next()));
  EXPECT_TRUE(communicates(*node)) << "another rank may need it, so that it is never dropped";
  EXPECT_EQ(redistribute_local().schema().arguments().size(), 4U);
}

} // namespace local_redistribution_test

} // namespace weft::graph
