#include "weft/graph/pt2/written_names.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace written_names_test {
TEST(WrittenNames, AreNamesToPythonEachOnce) {
  Program program;
  auto& graph = *program.graph;
  const auto type = contiguous_type(at::kFloat, {4, 6});
  auto* x = graph.add_input("layers.0/x", type);
  auto* y = graph.add_input("layers_0_x", type);
  auto* z = graph.add_input("lambda", type);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::topk", "");
  auto* node = graph.insert(
      nullptr, op, {Argument::operand(0), Argument(2), Argument(), Argument(), Argument()}, {x},
      {{type, type}, {}, {"topk", "2nd"}});
  graph.set_return({node->output(0)});

  const WrittenNames names(program);
  EXPECT_EQ(names.of(x), "layers_0_x");
  EXPECT_EQ(names.of(y), "layers_0_x_1");
  EXPECT_EQ(names.of(z), "lambda_");
  EXPECT_EQ(names.of(node->output(0)), "topk");
  EXPECT_EQ(names.of(node->output(1)), "_2nd");
  EXPECT_EQ(names.of(node), "topk_1");
}

} // namespace written_names_test

} // namespace weft::graph
