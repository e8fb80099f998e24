#include "weft/graph/ir/value_table.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace value_table_test {
TEST(ValueTable, HoldsSomethingOfValuesThatCameLaterToo) {
  Graph graph;
  const auto* x = graph.add_input("x", contiguous_type(c10::kFloat, {4}));
  ValueTable<int> table(graph);
  const auto* y = graph.add_input("y", contiguous_type(c10::kFloat, {4}));
  EXPECT_EQ(table.get(x), 0);
  EXPECT_EQ(table.get(y), 0);
  table[y] = 3;
  EXPECT_EQ(table.get(x), 0);
  EXPECT_EQ(table.get(y), 3);
}

TEST(ValueTable, ANodeThatIsErasedLeavesNothingToTheNext) {
  Graph graph;
  auto* x = graph.add_input("x", contiguous_type(c10::kFloat, {4}));
  const auto relu = c10::Dispatcher::singleton().findSchemaOrThrow("aten::relu", "");
  const auto insert = [&] { return graph.insert(nullptr, relu, {Argument::operand(0)}, {x}, {.types = {x->type}}); };
  NodeTable<int> nodes;
  ValueTable<int> values;
  auto* first = insert();
  nodes[first] = 1;
  values[first->output()] = 1;
  graph.erase(first);
  const auto* second = insert();
  EXPECT_EQ(nodes.get(second), 0);
  EXPECT_EQ(values.get(second->output()), 0);
}

TEST(ValueSet, IsEmptyAfterItWasCleared) {
  Graph graph;
  const auto* x = graph.add_input("x", contiguous_type(c10::kFloat, {4}));
  const auto* y = graph.add_input("y", contiguous_type(c10::kFloat, {4}));
  ValueSet set;
  set.insert(x);
  EXPECT_TRUE(set.contains(x));
  EXPECT_FALSE(set.contains(y));
  set.clear();
  EXPECT_FALSE(set.contains(x));
  set.insert(y);
  EXPECT_TRUE(set.contains(y));
}

} // namespace value_table_test

} // namespace weft::graph
