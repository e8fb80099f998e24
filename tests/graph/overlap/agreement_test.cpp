#include "weft/graph/overlap/agreement.h"

#include "weft/comm/world/current_world.h"
#include "weft/comm/world/named_groups.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/ir/parse.h"

#include <c10/util/StringUtil.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace agreement_test {

/// What each of two ranks decides on its program.
std::vector<std::string> decided(
    const std::vector<std::string>& texts,
    const std::vector<OverlapOptions>& options = {{.mode = OverlapMode::Force}, {.mode = OverlapMode::Force}}) {
  std::vector<std::string> lines(2);
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const NamedGroupScope scope(groups_of(mesh));
    auto program = parse_program(texts[rank]);
    std::vector<std::string> own;
    for (const auto& decision : micro_pipeline_together(program, options[rank])) {
      own.push_back(c10::str(
          decision.kind, " %", decision.node,
          decision.fused ? c10::str(" ", decision.chunks) : ": " + decision.reason));
    }
    lines[rank] = c10::Join("; ", own);
  });
  return lines;
}

std::string gather_of(const std::string& after = "", const std::string& operand = "%f") {
  return R"(program
input %w: f32[8,4] = user
input %x: f32[2,8] = user
  %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "tp")
  %f: f32[4,8] = _c10d_functional::wait_tensor(%g)
)" + after +
      "  %y: f32[4,4] = aten::mm(" + operand + ", %w)\noutput %y = user\n";
}

TEST(Agreement, RanksThatDecideAlikeFuse) {
  EXPECT_EQ(decided({gather_of(), gather_of()}), (std::vector<std::string>(2, "all_gather %g 1")));
}

TEST(Agreement, WhatOneRankCannotFuseNoneDoes) {
  EXPECT_EQ(
      decided({gather_of(), gather_of("  %r: f32[4,8] = aten::relu(%f)\n", "%r")}),
      (std::vector<std::string>{
          "all_gather %g: not all members of its group can fuse it",
          "all_gather %g: no matmul takes what is gathered"}));
}

TEST(Agreement, ProgramsOfOtherCollectivesAreLeftAlone) {
  const auto one = "all_gather %g: not all members of its group can fuse it";
  const auto more = gather_of(R"(  %h: f32[4,8] = _c10d_functional::all_reduce(%x, "sum", "tp")
  %v: f32[4,8] = _c10d_functional::wait_tensor(%h)
)");
  const auto lines = decided({gather_of(), more});
  EXPECT_EQ(lines[0], one);
  EXPECT_EQ(lines[1].substr(0, std::string(one).size()), one);
}

TEST(Agreement, TheGatherOfAnAllReduceIsFusedByAllOrByNone) {
  const auto reduced = [](const std::string& operand) {
    return R"(program
input %w: f32[8,8] = user
input %x: f32[4,8] = user
  %m: f32[4,8] = aten::mm(%x, %w)
  %r: f32[4,8] = _c10d_functional::all_reduce(%m, "sum", "tp")
  %v: f32[4,8] = _c10d_functional::wait_tensor(%r)
  %n: f32[4,8] = aten::relu(%v)
  %y: f32[4,8] = aten::mm()" +
        operand + ", %w)\noutput %y = user\n";
  };
  EXPECT_EQ(
      decided({reduced("%v"), reduced("%v")}),
      (std::vector<std::string>(2, "all_reduce %r 1; all_gather %all_gather_into_tensor 1")));
  EXPECT_EQ(
      decided({reduced("%v"), reduced("%n")}),
      (std::vector<std::string>{
          "all_reduce %r 1; all_gather %all_gather_into_tensor: not all members of its group can fuse it",
          "all_reduce %r 1; all_gather %all_gather_into_tensor: no matmul takes what is gathered"}));
}

TEST(Agreement, WithoutGroupsARankDecidesAlone) {
  auto program = parse_program(gather_of());
  const auto decisions = micro_pipeline_together(program, {.mode = OverlapMode::Force});
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_TRUE(decisions[0].fused);
}

} // namespace agreement_test

} // namespace weft::graph
