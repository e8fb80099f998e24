#include "weft/graph/deploy/global_run.h"

#include "tests/support/error_text.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace global_run_test {
using namespace weft::testing;

at::Tensor weight() {
  return at::arange(24).view({6, 4}).remainder(5).to(at::kFloat);
}

/// x and z are sharded along their rows, and y along its columns. A replicated mask tells the number of rows.
Program sharded(int64_t ranks) {
  auto program = parse_program(R"(program
    symbol s0 = 5 in [2, 64]
    input %w: f32[6,4] = parameter "up.weight"
    input %x: f32[s0,4] = user
    input %mask: f32[s0] = user
    input %n: int = user
    input 2 = user
      %y: f32[s0,6] = aten::linear(%x, %w)
      %z: f32[s0,4] = aten::mul.Scalar(%x, %n)
    output %y = user
    output None = user
    output %z = user)");
  program.tensors["up.weight"] = weight();
  TensorParallelOptions options;
  options.inputs.emplace("x", Layout({Shard(0)}));
  options.outputs.emplace(0, Layout({Shard(1)}));
  options.outputs.emplace(2, Layout({Shard(0)}));
  shard(program, analysis_mesh(c10::str("tp=", ranks)), {{"up", nn::colwise()}}, options);
  return program;
}

at::Tensor x_of(int64_t rows) {
  return at::arange(rows * 4).view({rows, 4}).to(at::kFloat);
}

void check(const std::vector<at::Tensor>& outputs, int64_t rows) {
  TORCH_CHECK(outputs.size() == 3 && !outputs[1].defined());
  TORCH_CHECK(at::equal(outputs[0], at::linear(x_of(rows), weight())), outputs[0]);
  TORCH_CHECK(at::equal(outputs[2], x_of(rows) * 3), outputs[2]);
}

NamedTensors inputs_of(int64_t rows) {
  return {{"x", x_of(rows)}, {"mask", at::ones({rows})}, {"n", at::scalar_tensor(3, at::kLong)}};
}

std::unique_ptr<GlobalRun> on_threads(int64_t ranks) {
  const auto program = sharded(ranks);
  std::vector<std::shared_ptr<const Program>> programs;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    programs.push_back(std::make_shared<const Program>(program_of_rank(program, rank)));
  }
  return run_on_threads(std::move(programs), manifest_of(program));
}

TEST(GlobalRun, ShardsInputsAndGathersOutputs) {
  for (const int64_t ranks : {1, 2, 3}) {
    const auto run = on_threads(ranks);
    for (const int64_t rows : {5, 6}) {
      check(run->run(inputs_of(rows)), rows);
    }
  }
}

RANK_ROLE(runs_as_a_process) {
  const auto size = current_world()->size();
  const auto program = sharded(size);
  auto own = std::make_shared<const Program>(program_of_rank(program, current_world()->rank()));
  const auto run = run_as_process(std::move(own), manifest_of(program));
  for (const int64_t rows : {5, 6}) {
    check(run->run(inputs_of(rows)), rows);
  }
  say("same");
}

TEST(GlobalRun, DoesTheSameOnProcesses) {
  for (const auto& rank : run_process_ranks("runs_as_a_process", 3)) {
    EXPECT_TRUE(rank.has_line("same")) << rank.output;
  }
}

TEST(GlobalRun, RunsAProgramThatIsNotSharded) {
  auto program = parse_program("program\ninput %x: f32[2] = user\n%y: f32[2] = aten::relu(%x)\noutput %y = user");
  const auto manifest = manifest_of(program);
  const auto run = run_on_threads({std::make_shared<const Program>(std::move(program))}, manifest);
  EXPECT_TRUE(at::equal(run->run({{"x", at::full({2}, -1.0)}})[0], at::zeros({2})));
}

TEST(GlobalRun, RefusesInputsThatTheProgramIsNotFor) {
  const auto run = on_threads(2);
  const auto error = [&](NamedTensors inputs) { return error_text<c10::ValueError>([&] { run->run(inputs); }); };
  auto inputs = inputs_of(5);
  inputs.erase("n");
  EXPECT_EQ(error(inputs), "[GlobalRun] the input \"n\" is missing. The inputs are x, mask, n.");
  inputs["n"] = at::ones({2});
  EXPECT_EQ(error(inputs), "[GlobalRun] input \"n\" is a number, a tensor of one element, but got sizes [2].");
  inputs["m"] = at::ones({2});
  EXPECT_EQ(error(inputs), "[GlobalRun] there is no input \"m\". The inputs are x, mask, n.");
  inputs = inputs_of(5);
  inputs["x"] = at::ones({5, 3});
  EXPECT_EQ(error(inputs), "[GlobalRun] input \"x\" must be f32[s0,4], but got f32[5,3].");
  inputs["x"] = at::ones({5, 4}, at::kLong);
  EXPECT_EQ(error(inputs), "[GlobalRun] input \"x\" must be f32[s0,4], but got i64[5,4].");
}

TEST(GlobalRun, RefusesAProgramThatIsNotTheManifests) {
  auto manifest = manifest_of(sharded(1));
  manifest.outputs.pop_back();
  auto program = std::make_shared<const Program>(program_of_rank(sharded(1), 0));
  expect_contains(
      error_text<c10::ValueError>([&] { run_on_threads({program}, manifest); }),
      "the program has 4 user inputs and 3 outputs, but its manifest names 4 and 2. Shard it again.");
}

} // namespace global_run_test

} // namespace weft::graph
