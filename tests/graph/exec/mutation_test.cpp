#include "weft/graph/exec/mutation.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/program_builder.h"
#include "weft/graph/exec/executor.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace mutation_test {

using namespace weft::testing;

TEST(Mutation, SwapsBuffers) {
  ProgramBuilder build;
  auto* a = build.buffer("a", at::zeros({2}));
  auto* b = build.buffer("b", at::ones({2}));
  build.output(b, OutputKind::BufferMutation, "a");
  build.output(a, OutputKind::BufferMutation, "b");
  Executor executor(build.finish());
  EXPECT_TRUE(executor.run({}).empty());
  expect_equal(executor.tensor("a"), at::ones({2}));
  expect_equal(executor.tensor("b"), at::zeros({2}));
}

TEST(Mutation, GivesWhatABufferWasBefore) {
  ProgramBuilder build;
  auto* state = build.buffer("state", at::zeros({2, 2}));
  auto* x = build.input("x", at::kFloat, {2});
  build.output(build.call("aten::add.Tensor", {state, x}), OutputKind::BufferMutation, "state");
  build.output(state);
  build.output(build.call("aten::select.int", {state, 0, 0}));
  Executor executor(build.finish());
  for (const auto runs : {0, 1}) {
    const auto outputs = executor.run({at::ones({2})});
    expect_equal(outputs[0].toTensor(), at::full({2, 2}, static_cast<double>(runs)));
    expect_equal(outputs[1].toTensor(), at::full({2}, static_cast<double>(runs)));
  }
}

TEST(Mutation, KeepsABufferThatIsWrittenAsItIs) {
  ProgramBuilder build;
  auto* state = build.buffer("state", at::ones({2}));
  build.output(state, OutputKind::BufferMutation, "state");
  build.output(build.call("aten::add.Tensor", {state, state}));
  Executor executor(build.finish());
  expect_equal(executor.run({})[0].toTensor(), at::full({2}, 2.0));
  expect_equal(executor.tensor("state"), at::ones({2}));
}

TEST(Mutation, WritesParametersAndInputs) {
  ProgramBuilder build;
  auto* weight = build.parameter("weight", at::ones({2}));
  auto* x = build.input("x", at::kFloat, {2});
  auto* cache = build.input("cache", at::kFloat, {2});
  build.output(build.call("aten::sub.Tensor", {weight, x}), OutputKind::ParameterMutation, "weight");
  build.output(x, OutputKind::InputMutation, "cache");
  build.output(cache, OutputKind::InputMutation, "x");
  const auto program = build.finish();
  Executor executor(program);
  const auto first = at::full({2}, 3.0).set_requires_grad(true);
  const auto second = at::full({2}, 4.0);
  executor.run({first, second});
  expect_equal(executor.tensor("weight"), at::full({2}, -2.0));
  expect_equal(first.detach(), at::full({2}, 4.0));
  expect_equal(second, at::full({2}, 3.0));
  expect_equal(program->tensors.at("weight"), at::ones({2}));
}

TEST(Mutation, MustBeOfAnInput) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {2});
  build.output(x, OutputKind::BufferMutation, "x");
  const auto program = build.finish();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { find_mutations(*program); }),
      "[Executor] what an output is written to must be an input of the program, but got 'x'.");
}

} // namespace mutation_test

} // namespace weft::graph
