#include "weft/graph/pipeline/pass.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/simplify/dead_code.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace pass_test {
using testing::error_text;
using testing::expect_contains;

Program with_unused() {
  return parse_program(R"(program
      input %x: f32[4] = user
        %unused: f32[4] = aten::neg(%x)
        %y: f32[4] = aten::relu(%x)
      output %y = user)");
}

bool remove_unused(Program& program, PassContext& /*context*/) {
  return dead_code(*program.graph);
}

bool forget_outputs(Program& program, PassContext& /*context*/) {
  program.outputs.clear();
  return true;
}

constexpr auto kGlobal = ProgramForm::Global;
constexpr auto kRank = ProgramForm::Rank;
constexpr Pass kDeadCode = {"dead_code", kGlobal, kGlobal, &remove_unused};

TEST(Pass, RunsInOrderAndSaysWhetherItChangedAnything) {
  auto program = with_unused();
  PassContext context;
  EXPECT_TRUE(run_passes({kDeadCode, kDeadCode}, program, kGlobal, context));
  EXPECT_EQ(program.graph->size(), 2U);
  EXPECT_FALSE(run_passes({kDeadCode}, program, kGlobal, context));
}

TEST(Pass, IsLeftOutWhereItDoesNotApply) {
  auto program = with_unused();
  PassContext context;
  auto pass = kDeadCode;
  pass.applies = [](const PassContext& given) { return given.rank == 1; };
  EXPECT_FALSE(run_passes(pass, program, kGlobal, context));
  context.rank = 1;
  EXPECT_TRUE(run_passes(pass, program, kGlobal, context));
}

TEST(Pass, TakesTheFormThatTheOneBeforeGives) {
  auto program = with_unused();
  PassContext context;
  const Pass of_rank = {"of_rank", kRank, kRank, &remove_unused};
  expect_contains(
      error_text<c10::Error>([&] { run_passes({kDeadCode, of_rank}, program, kGlobal, context); }),
      "the pass of_rank takes a rank's program, but got a global program.");
}

TEST(Pass, ThatBreaksTheProgramIsNamed) {
  auto program = with_unused();
  PassContext context;
  const Pass broken = {"forget_outputs", kGlobal, kGlobal, &forget_outputs};
  const auto text = error_text<c10::Error>(
      [&] { run_passes({kDeadCode, broken, kDeadCode}, program, kGlobal, context, {.verifies = true}); });
  expect_contains(text, "the pass forget_outputs broke the program: [verify] ");
}

} // namespace pass_test

} // namespace weft::graph
