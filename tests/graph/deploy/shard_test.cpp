#include "weft/graph/deploy/shard.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

namespace weft::graph {

namespace shard_test {
using namespace weft::testing;

Program mlp() {
  return parse_program(R"(
program
symbol s0 = 4 in [2, 64]
input %up: f32[12,8] = parameter "up.weight"
input %down: f32[8,12] = parameter "down.weight"
input %x: f32[s0,8] = user
  %a: f32[s0,12] = aten::linear(%x, %up)
  %b: f32[s0,12] = aten::relu(%a)
  %unused: f32[s0,12] = aten::neg(%a)
  %c: f32[s0,8] = aten::linear(%b, %down)
output %c = user
)");
}

const nn::ParallelPlan kPlan = {{"up", nn::colwise()}, {"down", nn::rowwise()}};

TEST(Shard, APairOfLinearsIsOneAllReduceAndNothingUnusedIsLeft) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=4"), kPlan);
  verify(program);
  const std::string expected = R"~(program @ mesh(tp=4)
symbol s0 = 4 in [2, 64]
input %up: f32[12,8] {S(0)} = parameter "up.weight"
input %down: f32[8,12] {S(1)} = parameter "down.weight"
input %x: f32[s0,8] {R} = user
  %a: f32[s0,12] {S(1)} = aten::linear(%x, %up) because "by the rule ([a,b],[c,b])->([a,c]) sum={b} linear={0}{1}; parameters stay where they are"
  %b: f32[s0,12] {S(1)} = aten::relu(%a) because "by the rule ([a,b])->([a,b])"
  %c: f32[s0,8] {P(sum)} = aten::linear(%b, %down) because "by the rule ([a,b],[c,b])->([a,c]) sum={b} linear={0}{1}; parameters stay where they are"
  %all_reduce: f32[s0,8] {R} = all_reduce(%c, tp: {P(sum)} -> {R})
output %all_reduce = user
)~";
  EXPECT_EQ(to_string(program), expected);
}

TEST(Shard, EveryRankRunsTheSameCollectives) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=5"), kPlan);
  for (int64_t rank = 0; rank < 5; ++rank) {
    const auto own = program_of_rank(program, rank);
    verify(own);
    const auto text = to_string(own);
    expect_contains(text, "_c10d_functional::all_reduce(%c, \"sum\", \"tp\")");
    const std::string rows = rank < 4 ? "3" : "0"; // of twelve, three each, as torch.chunk does
    expect_contains(text, "input %up: f32[" + rows + ",8] = parameter");
  }
}

TEST(Shard, GroupsCanHaveOtherNames) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=2"), kPlan);
  expect_contains(
      to_string(program_of_rank(program, 1, {.group_names = {{"tp", "7"}}})),
      "_c10d_functional::all_reduce(%c, \"sum\", \"7\")");
}

TEST(Shard, AProgramIsShardedOnce) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=2"), kPlan);
  expect_contains(
      error_text<c10::ValueError>([&] { shard(program, analysis_mesh("tp=2"), kPlan); }),
      "[tensor_parallel] a program that is not sharded is required, but it is, over mesh(tp=2)");
}

} // namespace shard_test

} // namespace weft::graph
