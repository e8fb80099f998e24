#include "weft/graph/analysis/graph_builder.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/print.h"

namespace weft::graph {

namespace graph_builder_test {
using namespace weft::testing;

TensorType f32(Sizes sizes) {
  return contiguous_type(at::kFloat, std::move(sizes));
}

TEST(GraphBuilder, AddsCallsWithValuesConstantsAndLists) {
  Graph graph;
  auto* x = graph.add_input("x", f32({4, 6}));
  GraphBuilder build(graph);
  const auto parts = build.list("aten::split.Tensor", {x, Size(3), c10::IValue(1)}, {f32({4, 3}), f32({4, 3})});
  auto* joined = build.call("aten::cat", {parts, c10::IValue(0)}, f32({8, 3}), "joined");
  EXPECT_EQ(to_string(*parts[0]->producer()), "[%split: f32[4,3], %split_1: f32[4,3]] = aten::split.Tensor(%x, 3, 1)");
  EXPECT_EQ(to_string(*joined->producer()), "%joined: f32[8,3] = aten::cat([%split, %split_1], 0)");
}

TEST(GraphBuilder, SizesOfSymbolsAreComputedOnce) {
  Graph graph;
  const auto s0 = Size::symbol("s0");
  auto* x = graph.add_input("x", f32({s0, 6}));
  GraphBuilder build(graph);
  EXPECT_FALSE(build.knows(s0));
  build.define(
      "s0",
      build.insert("aten::sym_size.int", {x, c10::IValue(0)}, {.types = {NumberType{NumberKind::Int, "s0"}}})
          ->output());
  EXPECT_TRUE(build.knows(s0 * Size(2)));
  const auto half = floor_divide(s0, 2);
  auto* first = build.call("aten::view", {x, Sizes{half, 12}}, f32({half, 12}));
  auto* second = build.call("aten::view", {x, Sizes{half, 12}}, f32({half, 12}));
  EXPECT_EQ(first->producer()->operand(1), second->producer()->operand(1));
  EXPECT_EQ(
      to_string(*first->producer()->operand(1)->producer()),
      "%floordiv: int(s0//2) = _operator.floordiv(%sym_size, 2)");
  EXPECT_EQ(to_string(*first->producer()), "%view: f32[s0//2,12] = aten::view(%x, [%floordiv, 12])");
}

TEST(GraphBuilder, NodesGoBeforeTheOneThatIsNamed) {
  Graph graph;
  auto* x = graph.add_input("x", f32({4}));
  GraphBuilder(graph).call("aten::neg", {x}, f32({4}));
  auto* last = graph.first();
  GraphBuilder(graph, last).call("aten::relu", {x}, f32({4}));
  EXPECT_EQ(target_name(*graph.first()), "aten::relu");
  EXPECT_EQ(graph.first()->next(), last);
}

TEST(GraphBuilder, ASymbolWithoutAValueIsAnError) {
  Graph graph;
  GraphBuilder build(graph);
  expect_contains(
      error_text<c10::NotImplementedError>([&] { build.number(Size::symbol("s0") + Size(1)); }),
      "[localize] the size s0 must be that of a dim of a replicated input, which every rank knows.");
}

} // namespace graph_builder_test

} // namespace weft::graph
