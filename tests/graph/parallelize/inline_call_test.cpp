#include "weft/graph/parallelize/inline_call.h"

#include "tests/support/sharded_run.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace inline_call_test {
bool inlines(Program& program) {
  const TrialValues values(program);
  const TrialValues others(program, 1);
  const auto mesh = analysis_mesh("tp=2");
  CallInliner inliner(program, values, others, mesh);
  return inliner.composite(program.graph->first());
}

TEST(InlineCall, SizesAreWrittenInSymbolsAgain) {
  auto program = parse_program(R"(
program
symbol s0 = 4 in [2, 4096]
input %x: f32[s0,6] = user
  %y: f32[s0,2,3] = aten::unflatten.int(%x, 1, [2, 3])
output %y = user
)");
  ASSERT_TRUE(inlines(program));
  verify(program);
  const auto text = to_string(program);
  EXPECT_NE(text.find("f32[s0,2,3] = aten::view(%x, [%sym_size, 2, 3])"), std::string::npos) << text;
}

TEST(InlineCall, WhatIsNoProductOfSymbolsIsNotUnderstood) {
  // The size is s0 + 1, which two trial values do not determine.
  auto program = parse_program(R"(
program
symbol s0 = 4 in [2, 4096]
input %x: f32[s0 + 1,6] = user
input %z: f32[s0] = user
  %y: f32[s0 + 1,2,3] = aten::unflatten.int(%x, 1, [2, 3])
output %y = user
)");
  const auto before = to_string(program);
  EXPECT_FALSE(inlines(program));
  EXPECT_EQ(to_string(program), before);
}

TEST(InlineCall, ADecompositionOfASymbolicBatchIsRight) {
  const auto text = R"(
program
symbol s0 = 4 in [2, 4096]
input %w: f32[12,8] = parameter "up.weight"
input %x: f32[s0,8] = user
  %a: f32[s0,12] = aten::linear(%x, %w)
  %y: f32[s0] = aten::mean.dim(%a, [1])
output %y = user
)";
  const auto run = testing::expect_same_sharded(text, "tp=3", {{"up", nn::colwise()}}, {}, {{"s0", 5}});
  EXPECT_EQ(run.summary.collectives.at("all_reduce"), 1);
  EXPECT_EQ(run.summary.collectives.at("all_gather"), 0);
}

} // namespace inline_call_test

} // namespace weft::graph
