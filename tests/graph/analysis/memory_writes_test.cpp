#include "weft/graph/analysis/memory_writes.h"

#include "tests/support/program_builder.h"
#include "weft/graph/analysis/node_order.h"
#include "weft/graph/ir/parse.h"

#include <ATen/ATen.h>
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
  const auto number_of = [numbers = number_nodes(*program.graph)](const Node* node) { return numbers.at(node); };
  const MemoryWrites writes(*program.graph);
  const auto* x = program.graph->inputs()[0];
  EXPECT_EQ(writes.next_write(x, size_t{0}, number_of), 1);
  EXPECT_EQ(writes.next_write(program.graph->first()->output(), size_t{1}, number_of), 3);
  EXPECT_EQ(writes.next_write(x, size_t{3}, number_of), std::nullopt);
  EXPECT_EQ(writes.last_write(x, size_t{3}, number_of), 1);
  EXPECT_EQ(writes.last_write(x, size_t{1}, number_of), std::nullopt);
  EXPECT_EQ(writes.next_write(program.graph->inputs()[1], size_t{0}, number_of), std::nullopt);
  EXPECT_EQ(writes.last_write(program.graph->inputs()[1], size_t{4}, number_of), std::nullopt);
}

TEST(MemoryWrites, AGraphWithoutAnyHasNone) {
  const auto program =
      parse_program("program\n input %x: f32[4] = user\n %z: f32[4] = aten::relu(%x)\n output %z = user");
  const MemoryWrites writes(*program.graph);
  const auto number_of = [](const Node* /*node*/) { return size_t{0}; };
  EXPECT_FALSE(writes.is_any_written());
  EXPECT_EQ(writes.next_write(program.graph->inputs()[0], size_t{0}, number_of), std::nullopt);
  EXPECT_EQ(writes.last_write(program.graph->inputs()[0], size_t{1}, number_of), std::nullopt);
}

using namespace weft::testing;

using Inputs = std::unordered_set<const Value*>;

/// The inputs that an executor regards as written to.
Inputs written_inputs(const Graph& graph) {
  const MemoryWrites writes(graph, Forwarding::Known);
  Inputs inputs;
  for (const auto* input : graph.inputs()) {
    if (writes.is_written(input)) {
      inputs.insert(input);
    }
  }
  return inputs;
}

TEST(MemoryWrites, OfInputsAreFoundThroughViews) {
  ProgramBuilder build;
  auto* a = build.buffer("a", at::ones({4}));
  auto* b = build.buffer("b", at::ones({4}));
  auto* c = build.buffer("c", at::ones({4}));
  auto* view = build.call("aten::view", {a, std::vector<int64_t>{2, 2}});
  build.node("aten::mul_.Scalar", {build.call("aten::t", {view}), 2});
  build.node("aten::_foreach_add_.Scalar", {std::vector{b}, 2});
  build.call("aten::add.Tensor", {c, a});
  EXPECT_EQ(written_inputs(*build.program().graph), (Inputs{a, b}));
}

TEST(MemoryWrites, OfInputsAreFoundThroughListsAndWhatGivesItsInputBack) {
  ProgramBuilder build;
  auto* a = build.buffer("a", at::ones({4}));
  auto* b = build.buffer("b", at::ones({4}));
  const auto slices = build.call_list("aten::split.Tensor", {a, 2}, 2);
  build.node("aten::zero_", {slices[1]});
  build.node("aten::zero_", {build.call("aten::dropout", {b, 0.5, false})});
  EXPECT_EQ(written_inputs(*build.program().graph), (Inputs{a, b}));
}

TEST(MemoryWrites, OfInputsAreNotThoseOfWhichANewTensorIsMade) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {4, 4});
  auto* weight = build.parameter("weight", at::ones({4, 4}));
  build.node("aten::relu_", {build.call("aten::linear", {x, weight})});
  EXPECT_TRUE(written_inputs(*build.program().graph).empty());
}

TEST(MemoryWrites, OfInputsAreFoundThroughResultsOfWriting) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {4});
  auto* out = build.buffer("out", at::ones({4}));
  auto* sum = build.call("aten::add.out", {x, x, 1, out});
  build.node("aten::zero_", {sum});
  EXPECT_EQ(written_inputs(*build.program().graph), Inputs{out});
}

} // namespace memory_writes_test

} // namespace weft::graph
