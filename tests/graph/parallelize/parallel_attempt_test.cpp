#include "weft/graph/parallelize/parallel_attempt.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace parallel_attempt_test {
using testing::expect_contains;

/// A write to a slice that must be replicated.
Program writing_program() {
  return parse_program(R"(
program
input %w: f32[12,8] = parameter "up.weight"
input %x: f32[4,8] = user
  %a: f32[4,12] = aten::linear(%x, %w)
  %s: f32[4,5|12,1] = aten::slice.Tensor(%a, 1, 2, 7)
  %f: f32[4,5|12,1] = aten::fill_.Scalar(%s, 2.0)
  %y: f32[4,12] = aten::neg(%a)
output %y = user
)");
}

TEST(ParallelAttempt, NamesTheValueThatMustBeReplicatedAndReplicatesIt) {
  const auto mesh = analysis_mesh("tp=4");
  const nn::ParallelPlan plan = {{"up", nn::colwise()}};
  auto program = writing_program();
  try {
    attempt_parallel(program, mesh, plan, {});
    FAIL() << "the write is to a copy";
  } catch (const PartedByWrite& parted) {
    EXPECT_EQ(parted.original, "a");
    expect_contains(parted.message, "[tensor_parallel]");
  }
  program = writing_program();
  attempt_parallel(program, mesh, plan, {}, {}, {"a"});
  expect_contains(to_string(program), "all_gather(%a, ");
}

TEST(ParallelAttempt, RefusesAProgramWhoseSizesAreNotThoseOfItsOperators) {
  auto program = parse_program(R"(
program
input %x: f32[4,8] = user
input %w: f32[12,8] = parameter "w"
  %y: f32[4,1,12] = aten::linear(%x, %w)
output %y = user
)");
  expect_contains(
      testing::error_text([&] { attempt_parallel(program, analysis_mesh("tp=4"), {}, {}); }),
      "[tensor_parallel] %y must be of the sizes that aten::linear gives");
}

TEST(ParallelAttempt, LaysBuffersOutAsChosen) {
  auto program = parse_program(R"(
program
input %k: f32[8,4] = buffer "keys"
input %x: f32[8,4] = user
  %sum: f32[8,4] = aten::add_.Tensor(%k, %x)
output %sum = user
)");
  attempt_parallel(program, analysis_mesh("tp=4"), {}, {}, {{"keys", Layout({Shard(0)})}});
  expect_contains(to_string(program), "input %k: f32[8,4] {S(0)} = buffer \"keys\"");
}

} // namespace parallel_attempt_test

} // namespace weft::graph
