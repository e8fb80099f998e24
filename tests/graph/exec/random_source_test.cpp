#include "weft/graph/exec/random_source.h"

#include "tests/support/on_meshes.h"
#include "tests/support/program_builder.h"
#include "weft/graph/exec/executor.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace weft::graph {

namespace random_source_test {

using namespace weft::testing;

std::shared_ptr<const Program> random_program() {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {32});
  build.output(build.call("aten::bernoulli.p", {x, 0.5}));
  build.output(build.call("aten::native_dropout", {x, 0.5, true}));
  build.output(build.call("aten::rand", {std::vector<int64_t>{4}}));
  build.output(build.call("aten::normal_functional", {x}));
  return build.finish();
}

/// The same operators, called by hand.
std::vector<at::Tensor> by_hand(const at::Tensor& x) {
  return {
      at::bernoulli(x, 0.5), std::get<0>(at::native_dropout(x, 0.5, true)), at::rand({4}), at::normal_functional(x)};
}

void expect_outputs(Executor& executor, const at::Tensor& x, const std::vector<at::Tensor>& expected) {
  const auto outputs = executor.run({x});
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_equal(outputs[i].toTensor(), expected[i]);
  }
}

TEST(RandomSource, DrawsAsEagerDoesInAProcessThatIsOneRank) {
  const auto x = at::ones({32});
  at::manual_seed(3);
  const auto expected = by_hand(x);
  const auto next = by_hand(x);
  Executor executor(random_program());
  at::manual_seed(3);
  expect_outputs(executor, x, expected);
  expect_outputs(executor, x, next);
}

TEST(RandomSource, DrawsFromItsOwnSeedAndLeavesTorchsGeneratorAlone) {
  const auto x = at::ones({32});
  at::manual_seed(5);
  const auto expected = by_hand(x);
  const auto next = by_hand(x);
  const auto state = at::globalContext().defaultGenerator(at::kCPU).get_state().clone();
  Executor executor(random_program());
  executor.manual_seed(5);
  expect_outputs(executor, x, expected);
  expect_outputs(executor, x, next);
  expect_equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), state);
}

TEST(RandomSource, BeginsAlikeOnRanksThatAreThreads) {
  const auto x = at::ones({32});
  at::manual_seed(c10::default_rng_seed_val);
  const auto expected = by_hand(x);
  run_on_ranks(3, [&](int64_t /*rank*/) {
    Executor executor(random_program());
    expect_outputs(executor, x, expected);
  });
}

TEST(RandomSource, TakesTheGeneratorThatAProgramNames) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {32});
  build.output(build.call("aten::bernoulli.p", {x, 0.5, generator}));
  Executor executor(build.finish());
  executor.manual_seed(5);
  const auto drawn = executor.run({at::ones({32})})[0].toTensor();
  generator.set_current_seed(11);
  expect_equal(drawn, at::bernoulli(at::ones({32}), 0.5, generator));
}

} // namespace random_source_test

} // namespace weft::graph
