#include "weft/graph/parallelize/redistributions.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace redistributions_test {
TEST(Redistributions, WhatIsThereIsUsedAgainUntilItsSourceIsWrittenTo) {
  auto program = parse_program(R"(
program @ mesh(tp=2)
input %x: f32[4,8] {P(sum)} = user
  %y: f32[4,8] {R} = aten::relu(%x)
output %y = user
)");
  auto& graph = *program.graph;
  auto* relu = graph.first();
  auto* x = program.inputs[0].value;
  const TrialValues values(program);
  CallAnalysis analysis(*program.mesh, values);
  MemoryCopies memory;
  Redistributions redistributions(graph, analysis, memory);

  EXPECT_EQ(redistributions.in_layout(x, Layout({Partial()}), relu), x);
  auto* full = redistributions.in_layout(x, Layout({Replicate()}), relu);
  EXPECT_EQ(to_string(*full->producer()), "%all_reduce: f32[4,8] {R} = all_reduce(%x, 0: {P(sum)} -> {R})");
  EXPECT_EQ(redistributions.in_layout(x, Layout({Replicate()}), relu), full);
  EXPECT_EQ(redistributions.source_of(full), x);
  EXPECT_EQ(memory.original_of(full), x);

  redistributions.forget_copies_of(x);
  EXPECT_NE(redistributions.in_layout(x, Layout({Replicate()}), relu), full);
}

} // namespace redistributions_test

} // namespace weft::graph
