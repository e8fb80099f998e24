#include "weft/graph/deploy/thread_ranks.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/process_ranks.h"
#include "tests/support/program_builder.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace thread_ranks_test {

using namespace weft::testing;

using Programs = std::vector<std::shared_ptr<const Program>>;

/// A linear layer sharded along its inner dim: every rank returns the replicated x @ w.T and counts its runs.
std::shared_ptr<const Program> rank_program(int64_t rank, int64_t size) {
  ProgramBuilder build;
  build.program().mesh = DeviceMesh::parse(c10::str("mesh(tp=", size, ")"));
  auto* weight = build.parameter("weight", whole_numbers({3, 6}).chunk(size, 1)[rank]);
  auto* runs = build.buffer("runs", at::zeros({}));
  auto* x = build.input("x", at::kFloat, {Size::symbol("s0"), 6});
  auto* part = build.call("aten::slice.Tensor", {x, 1, rank * 6 / size, (rank + 1) * 6 / size});
  auto* term = build.call("aten::linear", {part, weight});
  auto* sum = build.call("_c10d_functional::all_reduce", {term, "sum", "tp"});
  build.output(build.call("aten::add.Scalar", {runs, 1}), OutputKind::BufferMutation, "runs");
  build.output(build.call("_c10d_functional::wait_tensor", {sum}));
  return build.finish();
}

Programs all_programs(int64_t size) {
  Programs programs;
  for (int64_t rank = 0; rank < size; ++rank) {
    programs.push_back(rank_program(rank, size));
  }
  return programs;
}

at::Tensor expected(const at::Tensor& x) {
  return at::linear(x, whole_numbers({3, 6}));
}

TEST(ThreadRanks, RunAProgramPerRankAgainAndAgain) {
  for (const int64_t size : {1, 2, 3}) {
    ThreadRanks ranks(all_programs(size));
    EXPECT_EQ(ranks.size(), size);
    for (const int64_t batch : {2, 5}) {
      const auto x = whole_numbers({batch, 6});
      const auto outputs = ranks.run_alike({x});
      ASSERT_EQ(static_cast<int64_t>(outputs.size()), size);
      for (const auto& each : outputs) {
        expect_equal(each.at(0).toTensor(), expected(x));
      }
    }
    expect_equal(ranks.executor(size - 1).tensor("runs"), at::full({}, 2.0));
  }
}

TEST(ThreadRanks, TakeInputsOfTheirOwn) {
  ThreadRanks ranks(all_programs(2));
  const auto x = whole_numbers({2, 6});
  const auto outputs = ranks.run({{x}, {x * 0}});
  const auto first = at::linear(x.narrow(1, 0, 3), whole_numbers({3, 6}).narrow(1, 0, 3));
  expect_equal(outputs[1][0].toTensor(), first);
}

TEST(ThreadRanks, GoOnAfterInputsThatDoNotFit) {
  ThreadRanks ranks(all_programs(2));
  const auto x = whole_numbers({2, 6});
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { ranks.run_alike({}); }), "[Executor] 1 inputs are required (x), but got 0.");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { ranks.run({{x}, {whole_numbers({2, 7})}}); }),
      "[Executor] input 0 ('x') must be f32[s0,6], but got f32[2,7]: dim 1 must be 6.");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { ranks.run({{x}}); }),
      "[ThreadRanks] the inputs of 2 ranks are required, but got those of 1.");
  expect_equal(ranks.run_alike({x})[0][0].toTensor(), expected(x));
}

TEST(ThreadRanks, SayWhichRankFailedFirst) {
  Programs programs;
  for (int64_t rank = 0; rank < 3; ++rank) {
    ProgramBuilder build;
    build.program().mesh = DeviceMesh::parse("mesh(tp=3)");
    auto* table = build.parameter("table", at::ones({rank == 1 ? 2 : 9}));
    auto* x = build.input("x", at::kLong, {1});
    auto* found = build.call("aten::index_select", {table, 0, x});
    auto* sum = build.call("_c10d_functional::all_reduce", {found, "sum", "tp"});
    build.output(build.call("_c10d_functional::wait_tensor", {sum}));
    programs.push_back(build.finish());
  }
  ThreadRanks ranks(programs);
  const auto start = std::chrono::steady_clock::now();
  const auto text = error_text([&] { ranks.run_alike({at::full({1}, 5, at::kLong)}); });
  expect_contains(text, "index out of range");
  expect_contains(text, "on rank 1");
  EXPECT_EQ(text.find("on rank 1"), text.rfind("on rank ")) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  const auto again = error_text([&] { ranks.run_alike({at::full({1}, 1, at::kLong)}); });
  expect_contains(again, "[ThreadRanks] ranks that run are required, but they have failed: ");
  expect_contains(again, "Make them anew.");
}

TEST(ThreadRanks, ChangeTheCallersInputOnce) {
  Programs programs;
  for (int64_t rank = 0; rank < 2; ++rank) {
    ProgramBuilder build;
    auto* x = build.input("x", at::kFloat, {2});
    build.output(build.call("aten::add_.Scalar", {x, rank + 1}));
    programs.push_back(build.finish());
  }
  ThreadRanks ranks(programs);
  const auto x = at::zeros({2});
  const auto outputs = ranks.run_alike({x});
  expect_equal(x, at::full({2}, 1.0));
  expect_equal(outputs[1][0].toTensor(), at::full({2}, 2.0));
}

TEST(ThreadRanks, RefuseAMeshOfAnotherSize) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { ThreadRanks ranks({rank_program(0, 2)}); }),
      "[ThreadRanks] mesh(tp=2) needs 2 programs, one per rank, but got 1.");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { ThreadRanks ranks({}); }),
      "[ThreadRanks] a program per rank is required, but got none.");
}

TEST(ThreadRanks, SayWhyTheyCannotBeMade) {
  ProgramBuilder build;
  build.output(build.call("aten::neg", {build.parameter("w", at::ones({2}))}));
  build.program().tensors.clear();
  const auto program = build.finish();
  const auto text = error_text([&] { ThreadRanks ranks({program, program}); });
  expect_contains(text, "[Executor] the program must contain the tensor 'w'");
  expect_contains(text, "on rank ");
}

TEST(ThreadRanks, DrawTheSameRandomNumbers) {
  Programs programs;
  for (int64_t rank = 0; rank < 3; ++rank) {
    ProgramBuilder build;
    auto* x = build.input("x", at::kFloat, {64});
    build.output(build.call("aten::native_dropout", {x, 0.5, true}));
    build.output(build.call("aten::bernoulli.p", {x, 0.5}));
    programs.push_back(build.finish());
  }
  ThreadRanks ranks(programs);
  const auto x = at::ones({64});
  const auto untouched = at::globalContext().defaultGenerator(at::kCPU).get_state().clone();
  ranks.manual_seed(7);
  const auto outputs = ranks.run_alike({x});
  ranks.manual_seed(7);
  const auto again = ranks.run_alike({x});
  const auto others = ranks.run_alike({x});
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (const auto i : {0, 1}) {
      expect_equal(outputs[rank][i].toTensor(), outputs[0][i].toTensor());
      expect_equal(again[rank][i].toTensor(), outputs[0][i].toTensor());
      EXPECT_FALSE(at::equal(others[rank][i].toTensor(), outputs[0][i].toTensor()));
    }
  }
  expect_equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), untouched);
}

RANK_ROLE(runs_its_program) {
  const auto rank = current_world()->rank();
  Executor executor(rank_program(rank, current_world()->size()));
  const auto x = whole_numbers({4, 6});
  const auto y = executor.run({x})[0].toTensor();
  say(at::equal(y, expected(x)) ? "equal" : "different");
}

TEST(ThreadRanks, AreExecutorsWhereEveryRankIsAProcess) {
  const auto ranks = run_process_ranks("runs_its_program", 2);
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank.has_line("equal")) << describe(ranks);
  }
}

} // namespace thread_ranks_test

} // namespace weft::graph
