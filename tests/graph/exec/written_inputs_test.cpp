#include "weft/graph/exec/written_inputs.h"

#include "tests/support/program_builder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace written_inputs_test {

using namespace weft::testing;

using Inputs = std::unordered_set<const Value*>;

TEST(WrittenInputs, AreFoundThroughViews) {
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

TEST(WrittenInputs, AreFoundThroughListsAndWhatGivesItsInputBack) {
  ProgramBuilder build;
  auto* a = build.buffer("a", at::ones({4}));
  auto* b = build.buffer("b", at::ones({4}));
  const auto pieces = build.call_list("aten::split.Tensor", {a, 2}, 2);
  build.node("aten::zero_", {pieces[1]});
  build.node("aten::zero_", {build.call("aten::dropout", {b, 0.5, false})});
  EXPECT_EQ(written_inputs(*build.program().graph), (Inputs{a, b}));
}

TEST(WrittenInputs, AreNotThoseOfWhichANewTensorIsMade) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {4, 4});
  auto* weight = build.parameter("weight", at::ones({4, 4}));
  build.node("aten::relu_", {build.call("aten::linear", {x, weight})});
  EXPECT_TRUE(written_inputs(*build.program().graph).empty());
}

TEST(WrittenInputs, AreFoundThroughResultsOfWriting) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {4});
  auto* out = build.buffer("out", at::ones({4}));
  auto* sum = build.call("aten::add.out", {x, x, 1, out});
  build.node("aten::zero_", {sum});
  EXPECT_EQ(written_inputs(*build.program().graph), Inputs{out});
}

} // namespace written_inputs_test

} // namespace weft::graph
