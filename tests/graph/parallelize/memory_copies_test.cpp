#include "weft/graph/parallelize/memory_copies.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace memory_copies_test {
bool always(const Value* /*value*/) {
  return true;
}
bool never(const Value* /*value*/) {
  return false;
}

TEST(MemoryCopies, AWriteSeparatesCopiesThatAreReadLater) {
  Graph graph;
  auto* x = graph.add_input("x", contiguous_type(at::kFloat, {4}));
  auto* copy = graph.add_input("copy", contiguous_type(at::kFloat, {4}));
  auto* copy_of_copy = graph.add_input("copy_of_copy", contiguous_type(at::kFloat, {4}));
  MemoryCopies memory;
  memory.add_copy(copy, x);
  memory.add_copy(copy_of_copy, copy);
  EXPECT_EQ(memory.parted_by_write(x, always), copy);
  EXPECT_EQ(memory.parted_by_write(copy, always), x);
  EXPECT_EQ(memory.parted_by_write(copy_of_copy, always), x);
  EXPECT_EQ(memory.parted_by_write(x, never), nullptr);
  EXPECT_EQ(memory.original_of(copy_of_copy), x);
}

TEST(MemoryCopies, AWriteThroughAViewOfACopySeparatesItFromItsSource) {
  const auto program = parse_program(R"(
program
input %x: f32[4] = user
input %copy: f32[4] = user
  %view: f32[2,2] = aten::view(%copy, [2, 2])
  %same: f32[2,2] = aten::einsum("ij->ij", [%view])
output %same = user
)");
  const auto& inputs = program.graph->inputs();
  MemoryCopies memory;
  memory.add_copy(inputs[1], inputs[0]);
  const auto* view = program.graph->first();
  memory.add_call(*view);
  memory.add_call(*view->next());
  EXPECT_EQ(memory.original_of(view->next()->output()), inputs[0]);
  EXPECT_EQ(memory.parted_by_write(view->next()->output(), always), inputs[0]);
  EXPECT_EQ(memory.values_sharing(view->output()).size(), 3U);
}

TEST(MemoryCopies, OfAMemoryThatHoldsACopyAndItsSourceEnds) {
  const auto program = parse_program(R"(
program @ mesh(tp=2)
input %x: f32[4] {R} = user
  %s: f32[4] {S(0)} = slice(%x, tp: {R} -> {S(0)})
output %s = user
)");
  MemoryCopies memory;
  const auto* slice = program.graph->first();
  memory.add_copy(slice->output(), slice->operand(0));
  memory.add_call(*slice);
  EXPECT_EQ(memory.original_of(slice->output()), slice->operand(0));
  EXPECT_EQ(memory.parted_by_write(slice->output(), always), nullptr);
}

} // namespace memory_copies_test

} // namespace weft::graph
