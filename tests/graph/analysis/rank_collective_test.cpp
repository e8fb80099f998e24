#include "weft/graph/analysis/rank_collective.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace rank_collective_test {
TEST(RankCollective, IsReadFromItsCallAndItsUses) {
  const auto program = parse_program(R"(program
      input %x: f32[4] = user
        %r: f32[2] = _c10d_functional::reduce_scatter_tensor(%x, reduce_op="SUM", group_size=2, group_name="tp")
        %w: f32[2] = _c10d_functional::wait_tensor(%r)
      output %w = user
      output %r = user)");
  const auto read = read_collective(*program.graph->first());
  EXPECT_EQ(read.refused, "");
  EXPECT_EQ(read.input, program.graph->inputs()[0]);
  EXPECT_EQ(read.wait, program.graph->first()->next());
  EXPECT_TRUE(read.is_saved);
  EXPECT_EQ(read.members, 2);
  EXPECT_EQ(read.group, "tp");
  EXPECT_EQ(read.reduce_op, "sum");
}

TEST(RankCollective, SaysWhyItCannotBeRead) {
  const auto why = [](const std::string& call, const std::string& rest = "") {
    const auto program =
        parse_program("program\n input %x: f32[4] = user\n " + call + "\n" + rest + "\n output %x = user");
    return read_collective(*program.graph->first()).refused;
  };
  const std::string reduce = "%r: f32[4] = _c10d_functional::all_reduce(%x, \"sum\", \"tp\")";
  EXPECT_EQ(why(reduce), "nothing waits for it");
  EXPECT_EQ(why(reduce, "%w: f32[4] = _c10d_functional::wait_tensor(%r)"), "");
  EXPECT_EQ(why("%r: f32[4] = _c10d_functional::all_reduce(%x, \"sum\", \"\")"), "its group has no name");
  EXPECT_EQ(
      why("%r: f32[4] = _c10d_functional::all_reduce_(%x, \"sum\", \"tp\")"), "it writes to a tensor that is given");
  EXPECT_EQ(
      why("[%r: f32[4]] = _c10d_functional::all_reduce_coalesced([%x], \"sum\", \"tp\")"),
      "it is one of several tensors at once");
  EXPECT_EQ(why("%r: f32[4] = _c10d_functional::all_gather_into_tensor(%x, 1, \"tp\")"), "the group has one member");
}

} // namespace rank_collective_test

} // namespace weft::graph
