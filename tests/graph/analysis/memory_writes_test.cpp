#include "weft/graph/analysis/memory_writes.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace memory_writes_test {
TEST(MemoryWrites, AreThoseToAllThatSharesTheMemory) {
  const auto program = parse_program(R"(program
      input %x: f32[4] = user
      input %y: f32[4] = user
        %v: f32[2,2] = aten::view(%x, [2, 2])
        %i: f32[2,2] = aten::relu_(%v)
        %z: f32[4] = aten::relu(%y)
        %j: f32[4] = aten::relu_(%x)
      output %z = user)");
  const auto numbers = number_nodes(*program.graph);
  EXPECT_EQ(numbers.at(program.graph->first()), 0);
  EXPECT_EQ(numbers.at(program.graph->return_node()), 4);
  const MemoryWrites writes(*program.graph, numbers);
  const auto* x = program.graph->inputs()[0];
  EXPECT_EQ(writes.next_write(x, 0), 1);
  EXPECT_EQ(writes.next_write(program.graph->first()->output(), 1), 3);
  EXPECT_EQ(writes.next_write(x, 3), std::nullopt);
  EXPECT_EQ(writes.last_write(x, 3), 1);
  EXPECT_EQ(writes.last_write(x, 1), std::nullopt);
  EXPECT_EQ(writes.next_write(program.graph->inputs()[1], 0), std::nullopt);
  EXPECT_EQ(writes.last_write(program.graph->inputs()[1], 4), std::nullopt);
}

TEST(MemoryWrites, AGraphWithoutAnyHasNone) {
  const auto program =
      parse_program("program\n input %x: f32[4] = user\n %z: f32[4] = aten::relu(%x)\n output %z = user");
  const MemoryWrites writes(*program.graph, number_nodes(*program.graph));
  EXPECT_EQ(writes.next_write(program.graph->inputs()[0], 0), std::nullopt);
  EXPECT_EQ(writes.last_write(program.graph->inputs()[0], 1), std::nullopt);
}

} // namespace memory_writes_test

} // namespace weft::graph
