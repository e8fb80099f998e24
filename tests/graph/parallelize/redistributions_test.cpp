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

  EXPECT_EQ(redistributions.bring(x, Layout({Partial()}), relu), x);
  auto* whole = redistributions.bring(x, Layout({Replicate()}), relu);
  EXPECT_EQ(to_string(*whole->producer()), "%all_reduce: f32[4,8] {R} = all_reduce(%x, 0: {P(sum)} -> {R})");
  EXPECT_EQ(redistributions.bring(x, Layout({Replicate()}), relu), whole);
  EXPECT_EQ(redistributions.source_of(whole), x);
  EXPECT_EQ(memory.original_of(whole), x);

  redistributions.forget_copies_of(x);
  EXPECT_NE(redistributions.bring(x, Layout({Replicate()}), relu), whole);
}

} // namespace redistributions_test

} // namespace weft::graph
