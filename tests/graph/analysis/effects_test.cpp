#include "weft/graph/analysis/effects.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace effects_test {
/// The nodes of a program with an input %x: f32[4], by the names of their outputs.
class Effects : public ::testing::Test {
 protected:
  const Node& node(const std::string& line) {
    programs.push_back(parse_program(
        "program @ mesh(tp=2)\ninput %x: f32[4] {R} = user\ninput %n: int = user\n" + line + "\noutput %x = user\n"));
    return *programs.back().graph->first();
  }

  std::vector<Program> programs;
};

TEST_F(Effects, OperatorsThatWriteCheckOrCommunicateDoMoreThanCompute) {
  for (const auto* line :
       {"%y: f32[4] = aten::add_.Tensor(%x, 1)", "%y: f32[4] = aten::add.out(%x, 1, out=%x)",
        "aten::_assert_scalar(%n, \"\")", "aten::sym_constrain_range_for_size(%n)",
        "aten::_assert_tensor_metadata(%x, dtype=f32)",
        "%y: f32[4] = _c10d_functional::all_reduce(%x, \"sum\", \"tp\")",
        "%y: f32[4] = _c10d_functional::all_reduce_(%x, \"sum\", \"tp\")",
        "%y: f32[4] = _c10d_functional::wait_tensor(%x)"}) {
    EXPECT_TRUE(has_side_effects(node(line))) << line;
  }
  for (const auto* line :
       {"%y: f32[4] = aten::add.Tensor(%x, 1)", "%y: f32[4] = aten::dropout(%x, 0.5, True)",
        "%y: int = _operator.add(%n, 1)", "%y: f32[4] {S(0)} = slice(%x, tp: {R} -> {S(0)})"}) {
    EXPECT_FALSE(has_side_effects(node(line))) << line;
  }
  EXPECT_TRUE(has_side_effects(*parse_program("program\noutput 1 = user").graph->return_node()));
}

TEST_F(Effects, CollectivesAreStartedAndAwaited) {
  const auto& start = node("%y: f32[8] = _c10d_functional::all_gather_into_tensor(%x, 2, \"tp\")");
  EXPECT_TRUE(starts_collective(start));
  EXPECT_TRUE(communicates(start));
  EXPECT_FALSE(waits_for_collective(start));
  const auto& list = node("[%y: f32[4]] = _c10d_functional::all_reduce_coalesced([%x], \"sum\", \"tp\")");
  EXPECT_TRUE(starts_collective(list));
  const auto& in_place = node("%y: f32[4] = _c10d_functional::all_reduce_(%x, \"sum\", \"tp\")");
  EXPECT_FALSE(starts_collective(in_place));
  EXPECT_TRUE(communicates(in_place));
  const auto& wait = node("%y: f32[4] = _c10d_functional::wait_tensor(%x)");
  EXPECT_TRUE(waits_for_collective(wait));
  EXPECT_FALSE(communicates(wait));
  EXPECT_FALSE(communicates(node("%y: f32[4] = aten::relu(%x)")));
}

TEST_F(Effects, RandomOperatorsAreKnown) {
  EXPECT_TRUE(is_random(node("%y: f32[4] = aten::rand([4])")));
  EXPECT_TRUE(is_random(node("%y: f32[4], %m: bool[4] = aten::native_dropout(%x, 0.5, True)")));
  EXPECT_FALSE(is_random(node("%y: f32[4] = aten::relu(%x)")));
  EXPECT_FALSE(is_random(node("%y: int = _operator.add(%n, 1)")));
}

} // namespace effects_test

} // namespace weft::graph
