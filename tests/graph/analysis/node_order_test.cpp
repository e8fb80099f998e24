#include "weft/graph/analysis/node_order.h"

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace node_order_test {
Program writes() {
  return parse_program(R"(program
input %x: f32[4] = user
  %a: f32[4] = aten::relu(%x)
  %v: f32[4] = aten::view(%a, [4])
  %b: f32[4] = aten::add_.Tensor(%v, 1)
  %c: f32[4] = aten::neg(%a)
output %c = user
)");
}

TEST(NodeOrder, NodesAreNumberedInTheirOrder) {
  const auto program = writes();
  const auto numbers = number_nodes(*program.graph);
  EXPECT_EQ(numbers.at(program.graph->first()), 0);
  EXPECT_EQ(numbers.at(program.graph->return_node()), 4);
}

TEST(NodeOrder, InsertedNodesStandWhereTheyAre) {
  auto program = writes();
  NodeOrder order(*program.graph);
  auto* first = program.graph->first();
  auto* second = first->next();
  GraphBuilder build(*program.graph, second);
  auto* inserted = build.call("aten::neg", {first->output()}, first->output()->tensor())->producer();
  auto* another = build.call("aten::neg", {first->output()}, first->output()->tensor())->producer();
  order.place_before(second);
  EXPECT_LT(order.number(first), order.number(inserted));
  EXPECT_LT(order.number(inserted), order.number(another));
  EXPECT_LT(order.number(another), order.number(second));
  program.graph->move_before(another, first);
  order.place(another);
  EXPECT_LT(order.number(another), order.number(first));
}

TEST(NodeOrder, ManyNodesFindRoomInOnePlaceFromEitherSide) {
  for (const bool each_before_the_last : {false, true}) {
    auto program = writes();
    NodeOrder order(*program.graph);
    auto* place = program.graph->first()->next();
    for (int i = 0; i < 1000; ++i) {
      GraphBuilder build(*program.graph, place);
      const auto* first = program.graph->first();
      auto* inserted = build.call("aten::neg", {first->output()}, first->output()->tensor())->producer();
      order.place(inserted);
      place = each_before_the_last ? inserted : place;
    }
    for (auto* node = program.graph->first(); node->next() != nullptr; node = node->next()) {
      ASSERT_LT(order.number(node), order.number(node->next()));
    }
    const auto* write = program.graph->return_node()->previous()->previous();
    const auto* a = program.graph->first();
    EXPECT_TRUE(order.is_written_between(a->output(), order.number(a), order.number(write->next())));
    EXPECT_FALSE(order.is_written_between(a->output(), order.number(write), order.number(write->next())));
  }
}

TEST(NodeOrder, AWriteToAViewIsOneToWhatItShows) {
  auto program = writes();
  const NodeOrder order(*program.graph);
  const auto* a = program.graph->first();
  const auto* write = a->next()->next();
  EXPECT_TRUE(order.is_written_between(a->output(), order.number(a), order.number(write->next())));
  EXPECT_FALSE(order.is_written_between(a->output(), order.number(a), order.number(write)));
  EXPECT_FALSE(order.is_written_between(a->output(), order.number(write), order.number(write->next())));
  EXPECT_FALSE(order.is_written_between(program.inputs[0].value, order.number(a), order.number(write->next())));
}

} // namespace node_order_test

} // namespace weft::graph
