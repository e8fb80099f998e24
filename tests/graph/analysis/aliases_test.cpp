#include "weft/graph/analysis/aliases.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace aliases_test {
TEST(Aliases, ViewsAndInPlaceResultsShareTheirArgumentsMemory) {
  const auto program = parse_program(R"(
program
input %x: f32[4,8] = user
  %view: f32[32] = aten::view(%x, [32])
  %relu_: f32[32] = aten::relu_(%view)
  [%a: f32[16], %b: f32[16]] = aten::split.Tensor(%relu_, 16)
  %add: f32[16] = aten::add.Tensor(%a, %b)
output %add = user
)");
  Aliases aliases;
  const auto* x = program.graph->inputs()[0];
  const auto* view = program.graph->first();
  for (const auto* node = view; !node->is_return(); node = node->next()) {
    aliases.add_call(*node, OperatorSchema(node->op()->schema()));
  }
  const auto memory = aliases.memory_of(x);
  EXPECT_EQ(aliases.memory_of(view->output()), memory);
  EXPECT_EQ(aliases.memory_of(view->next()->output()), memory);
  EXPECT_EQ(aliases.memory_of(view->next()->next()->output(1)), memory);
  EXPECT_NE(aliases.memory_of(view->next()->next()->next()->output()), memory);
  EXPECT_EQ(aliases.values_in(memory).size(), 5U);
}

TEST(Aliases, AWritePartsCopiesThatAreReadLater) {
  Graph graph;
  auto* x = graph.add_input("x", contiguous_type(at::kFloat, {4}));
  auto* copy = graph.add_input("copy", contiguous_type(at::kFloat, {4}));
  Aliases aliases;
  aliases.add_copy(copy, x);
  const auto always = [](const Value*) { return true; };
  const auto never = [](const Value*) { return false; };
  EXPECT_EQ(aliases.parted_by_write(x, always), copy);
  EXPECT_EQ(aliases.parted_by_write(copy, always), x);
  EXPECT_EQ(aliases.parted_by_write(x, never), nullptr);
}

} // namespace aliases_test

} // namespace weft::graph
