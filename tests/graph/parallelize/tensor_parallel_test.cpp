#include "weft/graph/parallelize/tensor_parallel.h"

#include "tests/support/error_text.h"
#include "tests/support/sharded_run.h"

namespace weft::graph {

namespace tensor_parallel_test {
using namespace weft::testing;

const nn::ParallelPlan kPair = {{"up", nn::colwise()}, {"down", nn::rowwise()}};

/// A linear "up" whose output %a, f32[4,12] sharded by columns, goes through `nodes` to the output %y.
std::string behind_colwise(const std::string& nodes, const std::string& more_inputs = "") {
  return "program\ninput %w: f32[12,8] = parameter \"up.weight\"\n" + more_inputs +
      "input %x: f32[4,8] = user\n  %a: f32[4,12] = aten::linear(%x, %w)\n" + nodes + "output %y = user\n";
}

std::map<std::string, int64_t> collectives(const ShardedRun& run) {
  std::map<std::string, int64_t> result;
  for (const auto& [name, count] : run.summary.collectives) {
    if (count > 0) {
      result[name] = count;
    }
  }
  return result;
}

using Counts = std::map<std::string, int64_t>;

TEST(TensorParallel, AColwiseAndARowwiseLinearAreOneAllReduce) {
  const auto text = behind_colwise(
      "  %b: f32[4,12] = aten::gelu(%a)\n  %y: f32[4,8] = aten::linear(%b, %d, %e)\n",
      "input %d: f32[8,12] = parameter \"down.weight\"\ninput %e: f32[8] = parameter \"down.bias\"\n");
  for (const auto* mesh : {"tp=2", "tp=3", "tp=4", "tp=5", "dp=2,tp=2"}) {
    EXPECT_EQ(collectives(expect_same_sharded(text, mesh, kPair)), (Counts{{"all_reduce", 1}})) << mesh;
  }
}

TEST(TensorParallel, TensorsOfThreeDimsGoThroughTheViewsOfDecomposedLinears) {
  const auto text = R"(
program
input %w: f32[12,8] = parameter "up.weight"
input %b: f32[12] = parameter "up.bias"
input %d: f32[8,12] = parameter "down.weight"
input %x: f32[2,3,8] = user
  %v: f32[6,8] = aten::view(%x, [6, 8])
  %wt: f32[8,12|1,8] = aten::permute(%w, [1, 0])
  %m: f32[6,12] = aten::addmm(%b, %v, %wt)
  %u: f32[2,3,12] = aten::view(%m, [2, 3, 12])
  %r: f32[2,3,12] = aten::relu(%u)
  %q: f32[6,12] = aten::view(%r, [6, 12])
  %dt: f32[12,8|1,12] = aten::permute(%d, [1, 0])
  %n: f32[6,8] = aten::mm(%q, %dt)
  %y: f32[2,3,8] = aten::view(%n, [2, 3, 8])
output %y = user
)";
  const auto run = expect_same_sharded(text, "tp=4", kPair);
  EXPECT_EQ(collectives(run), (Counts{{"all_reduce", 1}}));
  expect_contains(run.of_rank[0], "aten::view(%m, [2, 3, 3])");
}

TEST(TensorParallel, ListsOfShardedAndReplicatedTensorsGetOneLayout) {
  EXPECT_EQ(
      collectives(expect_same_sharded(
          behind_colwise("  %y: f32[4,24] = aten::cat([%a, %a], 1)\n"), "tp=4", {{"up", nn::colwise()}})),
      (Counts{{"all_gather", 1}}));
  expect_same_sharded(
      behind_colwise("  %y: f32[2,4,12] = aten::stack([%a, %z])\n", "input %z: f32[4,12] = constant \"z\"\n"), "tp=4",
      {{"up", nn::colwise()}});
}

TEST(TensorParallel, SizesOfExpansionsAndASumOfAllAreRight) {
  expect_same_sharded(
      behind_colwise(
          "  %u: f32[1,4,12] = aten::unsqueeze(%a, 0)\n  %y: f32[3,4,12|0,12,1] = aten::expand(%u, [3, 4, 12])\n"),
      "tp=4", {{"up", nn::colwise()}});
  const auto sum = expect_same_sharded(
      behind_colwise("  %y: f32[] = aten::sum.dim_IntList(%a, [])\n"), "tp=4", {{"up", nn::colwise()}});
  EXPECT_EQ(collectives(sum), (Counts{{"all_reduce", 1}}));
  const auto mean =
      expect_same_sharded(behind_colwise("  %y: f32[4] = aten::mean.dim(%a, [1])\n"), "tp=5", {{"up", nn::colwise()}});
  EXPECT_EQ(collectives(mean), (Counts{{"all_reduce", 1}}));
}

TEST(TensorParallel, EveryOutputOfABatchNormHasItsOwnLayout) {
  const auto run = expect_same_sharded(
      behind_colwise(
          "  %n: f32[4,12], %s: f32[12], %t: f32[12], %new_mean: f32[12], %new_var: f32[12] = "
          "aten::_native_batch_norm_legit_functional(%a, None, None, %mean, %var, True, 0.1, 1e-05)\n"
          "  %y: f32[4,12] = aten::add.Tensor(%n, %new_mean)\n",
          "input %mean: f32[12] = buffer \"mean\"\ninput %var: f32[12] = buffer \"var\"\n"),
      "tp=4", {{"up", nn::colwise()}});
  expect_contains(run.text, "%s: f32[12] {S(0)}");
  EXPECT_EQ(collectives(run), (Counts{{"all_gather", 1}}));
}

TEST(TensorParallel, WhatSeveralWantIsRedistributedOnce) {
  const auto text = [](int64_t rows, int64_t features) {
    const auto size = c10::str(rows, ",", features);
    return c10::str(
        "program\ninput %w: f32[", features, ",12] = parameter \"down.weight\"\ninput %x: f32[", rows,
        ",12] = user\n  %a: f32[", size, "] = aten::linear(%x, %w)\n  %b: f32[", size, "] = aten::relu(%a)\n  %c: f32[",
        size, "] = aten::sigmoid(%a)\n", "output %b = user\n", "output %c = user\noutput %b = user\n");
  };
  const auto counts = [](const std::string& program) {
    return collectives(expect_same_sharded(program, "tp=4", {{"down", nn::rowwise()}}));
  };
  EXPECT_EQ(counts(text(4, 8)), (Counts{{"all_reduce", 1}}));
  // A large one is reduced into shards, and each result is gathered once for its two outputs.
  EXPECT_EQ(counts(text(16, 8192)), (Counts{{"reduce_scatter", 1}, {"all_gather", 2}}));
}

TEST(TensorParallel, ACopyIsNotUsedAfterItsSourceWasWrittenTo) {
  expect_same_sharded(
      behind_colwise("  %s: f32[4,12] = aten::softmax.int(%a, 1)\n  %m: f32[4,12] = aten::mul_.Tensor(%a, %a)\n"
                     "  %t: f32[4,12] = aten::softmax.int(%a, 1)\n  %y: f32[4,12] = aten::sub.Tensor(%s, %t)\n"),
      "tp=4", {{"up", nn::colwise()}});
}

TEST(TensorParallel, WritesThroughViewsThatWouldMoveReachTheTensor) {
  expect_same_sharded(
      behind_colwise(
          "  %s: f32[4,5|12,1] = aten::slice.Tensor(%a, 1, 2, 7)\n  %f: f32[4,5|12,1] = aten::fill_.Scalar(%s, 2.0)\n"
          "  %y: f32[4,12] = aten::neg(%a)\n"),
      "tp=4", {{"up", nn::colwise()}});
}

TEST(TensorParallel, ConstantsAreStoredAsTheyAreUsed) {
  const auto run = expect_same_sharded(
      behind_colwise("  %y: f32[4,12] = aten::mul.Tensor(%a, %z)\n", "input %z: f32[12] = constant \"z\"\n"), "tp=4",
      {{"up", nn::colwise()}});
  expect_contains(run.text, "input %z: f32[12] {S(0)} = constant \"z\"");
  expect_contains(run.of_rank[0], "input %z: f32[3] = constant \"z\"");
}

TEST(TensorParallel, LayoutsOfInputsAndOutputsAreAsAsked) {
  TensorParallelOptions options;
  options.inputs.emplace("x", Layout({Shard(0)}));
  options.outputs.emplace(0, Layout({Shard(1)}));
  const auto run = expect_same_sharded(
      behind_colwise("  %y: f32[4,12] = aten::relu(%a)\n"), "tp=4", {{"up", nn::colwise()}}, options);
  EXPECT_EQ(collectives(run), (Counts{{"all_gather", 1}})); // of the input
  expect_contains(run.text, "input %x: f32[4,8] {S(0)} = user");
}

TEST(TensorParallel, SizesThatAreSymbolsAreShardedWhenTheProgramRuns) {
  const auto text = R"(
program
symbol s0 = 4 in [2, 64]
input %w: f32[8,8] = parameter "up.weight"
input %x: f32[s0,3,8] = user
  %a: f32[s0,3,8] = aten::linear(%x, %w)
  %n: int(s0) = aten::sym_size.int(%x, 0)
  %v: f32[s0,3,4,2] = aten::view(%a, [%n, 3, 4, 2])
  %t: f32[s0,4,3,2|24,2,8,1] = aten::transpose.int(%v, 1, 2)
  %y: f32[s0,24] = aten::reshape(%t, [%n, -1])
output %y = user
)";
  TensorParallelOptions options;
  options.inputs.emplace("x", Layout({Replicate()}));
  options.outputs.emplace(0, Layout({Shard(0)}));
  for (const int64_t batch : {2, 5, 8}) {
    expect_same_sharded(text, "tp=2", {{"up", nn::colwise()}}, options, {{"s0", batch}});
  }
}

TEST(TensorParallel, APlanThatDoesNotFitIsAnError) {
  const auto text = behind_colwise("  %y: f32[4,12] = aten::relu(%a)\n");
  expect_contains(
      error_text<c10::ValueError>([&] { expect_same_sharded(text, "tp=4", {{"upp", nn::colwise()}}); }),
      "[tensor_parallel] every pattern of a plan must match a module, but \"upp\" matches none. The nearest are: up");
  expect_contains(
      error_text<c10::ValueError>([&] { expect_same_sharded(text, "tp=4", {{"up", nn::colwise({.heads = 6})}}); }),
      "[tensor_parallel] plan entry \"up\" for module \"up\": the number of heads must be divisible by the 4 ranks, "
      "but "
      "got 6");
}

} // namespace tensor_parallel_test

} // namespace weft::graph
