#include "weft/graph/exec/executor.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/program_builder.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <thread>

namespace weft::graph {

namespace executor_test {

using namespace weft::testing;

const auto kBatch = Size::symbol("s0");

at::Tensor run_one(Executor& executor, std::vector<c10::IValue> inputs) {
  return executor.run(std::move(inputs)).at(0).toTensor();
}

/// y = relu(x @ w.T + b), with a batch of any size.
std::shared_ptr<const Program> linear_program(const at::Tensor& weight, const at::Tensor& bias) {
  ProgramBuilder build;
  auto* w = build.parameter("layer.weight", weight);
  auto* b = build.parameter("layer.bias", bias);
  auto* x = build.input("x", at::kFloat, {kBatch, weight.size(1)});
  build.output(build.call("aten::relu", {build.call("aten::linear", {x, w, b})}));
  return build.finish();
}

TEST(Executor, RunsAProgramOnItsWeights) {
  const auto weight = whole_numbers({3, 4});
  const auto bias = whole_numbers({3});
  Executor executor(linear_program(weight, bias));
  const auto x = whole_numbers({2, 4});
  expect_equal(run_one(executor, {x}), at::relu(at::linear(x, weight, bias)));
}

TEST(Executor, RunsAgainWithOtherBatchSizes) {
  const auto weight = whole_numbers({3, 4}).set_requires_grad(true);
  Executor executor(linear_program(weight, whole_numbers({3})));
  for (const auto batch : {5, 1, 0, 7}) {
    const auto x = whole_numbers({batch, 4});
    const auto y = run_one(executor, {x});
    expect_equal(y, at::relu(at::linear(x, weight.detach(), whole_numbers({3}))));
    EXPECT_FALSE(y.requires_grad());
  }
}

TEST(Executor, GivesInferenceTensors) {
  Executor executor(linear_program(whole_numbers({3, 4}), whole_numbers({3})));
  EXPECT_TRUE(run_one(executor, {whole_numbers({2, 4})}).is_inference());
  EXPECT_FALSE(c10::InferenceMode::is_enabled());
}

TEST(Executor, ReadsWeightsWithoutACopy) {
  const auto weight = whole_numbers({3, 4});
  Executor executor(linear_program(weight, whole_numbers({3})));
  EXPECT_EQ(executor.tensor("layer.weight").const_data_ptr(), weight.const_data_ptr());
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { executor.tensor("layer.gain"); }),
      "[Executor] the program uses no tensor 'layer.gain'.");
}

TEST(Executor, GivesInputsWeightsAndConstantsBack) {
  ProgramBuilder build;
  auto* w = build.parameter("w", at::ones({2}));
  auto* x = build.input("x", at::kFloat, {2});
  auto* n = build.number("n", NumberKind::Int);
  build.constant_input("flag", true);
  build.output(x);
  build.output(w);
  build.constant_output("text");
  build.output(x);
  build.output(n);
  build.constant_output({});
  Executor executor(build.finish());
  for (int64_t run = 0; run < 2; ++run) {
    const auto given = whole_numbers({2});
    const auto outputs = executor.run({given, run, true});
    ASSERT_EQ(outputs.size(), 6);
    EXPECT_TRUE(outputs[0].toTensor().is_same(given));
    expect_equal(outputs[1].toTensor(), at::ones({2}));
    EXPECT_EQ(outputs[2].toStringRef(), "text");
    EXPECT_TRUE(outputs[3].toTensor().is_same(given));
    EXPECT_EQ(outputs[4].toInt(), run);
    EXPECT_TRUE(outputs[5].isNone());
  }
}

TEST(Executor, KeepsWhatItWritesToABuffer) {
  ProgramBuilder build;
  auto* count = build.buffer("count", at::zeros({2}));
  auto* x = build.input("x", at::kFloat, {2});
  auto* sum = build.call("aten::add.Tensor", {count, x});
  build.output(sum, OutputKind::BufferMutation, "count");
  build.output(build.call("aten::mul.Tensor", {sum, sum}));
  const auto program = build.finish();
  Executor executor(program);
  expect_equal(run_one(executor, {at::ones({2})}), at::full({2}, 1.0));
  expect_equal(run_one(executor, {at::ones({2})}), at::full({2}, 4.0));
  expect_equal(executor.tensor("count"), at::full({2}, 2.0));
  expect_equal(program->tensors.at("count"), at::zeros({2}));
  Executor another(program);
  expect_equal(run_one(another, {at::ones({2})}), at::full({2}, 1.0));
}

TEST(Executor, WritesToAnInputThatTheProgramChanges) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {kBatch});
  auto* cache = build.input("cache", at::kFloat, {kBatch});
  build.output(build.call("aten::add.Tensor", {cache, x}), OutputKind::InputMutation, "cache");
  build.output(build.call("aten::neg", {x}));
  Executor executor(build.finish());
  EXPECT_FALSE(executor.changes_input(0));
  EXPECT_TRUE(executor.changes_input(1));
  const auto given = at::ones({3});
  const auto* memory = given.const_data_ptr();
  executor.run({at::full({3}, 2.0), given});
  expect_equal(given, at::full({3}, 3.0));
  EXPECT_EQ(given.const_data_ptr(), memory);
}

TEST(Executor, WritesInPlaceAsEagerDoes) {
  ProgramBuilder build;
  auto* buffer = build.buffer("buffer", at::zeros({2, 2}));
  auto* x = build.input("x", at::kFloat, {4});
  auto* row = build.call("aten::view", {buffer, std::vector<int64_t>{4}});
  build.node("aten::add_.Tensor", {row, x});
  auto* y = build.call("aten::relu_", {x});
  build.output(build.call("aten::add.Tensor", {y, row}));
  const auto program = build.finish();
  Executor executor(program);
  EXPECT_TRUE(executor.changes_input(0));
  const auto given = at::tensor({-1.0F, 2.0F, -3.0F, 4.0F});
  expect_equal(run_one(executor, {given}), at::tensor({-1.0F, 4.0F, -3.0F, 8.0F}));
  expect_equal(given, at::tensor({0.0F, 2.0F, 0.0F, 4.0F}));
  expect_equal(executor.tensor("buffer"), at::tensor({-1.0F, 2.0F, -3.0F, 4.0F}).view({2, 2}));
  expect_equal(program->tensors.at("buffer"), at::zeros({2, 2}));
}

TEST(Executor, AViewThatIsNotPossibleOnThisRankIsACopyIfNoNodeWritesToIt) {
  for (const bool writes : {false, true}) {
    ProgramBuilder build;
    auto* x = build.input("x", at::kFloat, {2, 3});
    auto* turned = build.call("aten::t", {x});
    auto* y = build.call("aten::view", {turned, std::vector<int64_t>{6}});
    build.node("aten::relu_", {writes ? y : build.call("aten::neg", {x})});
    build.output(y);
    Executor executor(build.finish());
    const auto given = whole_numbers({2, 3});
    if (writes) {
      expect_contains(error_text([&] { executor.run({given}); }), "view size is not compatible");
    } else {
      expect_equal(run_one(executor, {given}), given.t().reshape({6}));
    }
  }
}

TEST(Executor, SaysWhichNodeFailed) {
  ProgramBuilder build;
  auto* table = build.parameter("table", at::ones({4, 2}));
  auto* x = build.input("x", at::kLong, {kBatch});
  auto* found = build.call("aten::embedding", {table, x});
  found->producer()->origin.module = "tokens";
  build.output(found);
  Executor executor(build.finish());
  const auto text = error_text([&] { executor.run({at::tensor({9}, at::kLong)}); });
  expect_contains(text, "index out of range");
  expect_contains(text, "while running aten::embedding for %embedding in module tokens");
  expect_equal(run_one(executor, {at::tensor({3}, at::kLong)}), at::ones({1, 2}));
}

TEST(Executor, LeavesNothingBehindAfterAnError) {
  ProgramBuilder build;
  auto* table = build.parameter("table", at::ones({4, 2}));
  auto* x = build.input("x", at::kLong, {kBatch});
  auto* y = build.input("y", at::kFloat, {kBatch});
  auto* found = build.call("aten::embedding", {table, x});
  build.output(build.call("aten::add.Tensor", {found, y}));
  Executor executor(build.finish());
  const auto given = at::ones({2});
  EXPECT_ANY_THROW(executor.run({at::tensor({9, 0}, at::kLong), given}));
  EXPECT_EQ(given.use_count(), 1);
}

TEST(Executor, RefusesAProgramOfAllRanks) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {4});
  const Step step{StepKind::AllGather, {0}, Layout({Shard(0)}), Layout({Replicate()})};
  auto* gathered = build.program().graph->insert(nullptr, step, {Argument::operand(0)}, {x}, {{x->type}});
  build.output(gathered->output());
  const auto program = build.finish();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { Executor executor(program); }),
      "[Executor] the program of one rank is required, but got one for all ranks, with all_gather in it. "
      "Make it a rank's with localize(program, rank).");
}

TEST(Executor, RefusesAWeightThatIsNotThere) {
  ProgramBuilder build;
  build.output(build.call("aten::neg", {build.parameter("w", at::ones({2}))}));
  build.program().tensors.clear();
  const auto program = build.finish();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { Executor executor(program); }),
      "[Executor] the program must contain the tensor 'w', but it has none of that name.");
}

} // namespace executor_test

} // namespace weft::graph
