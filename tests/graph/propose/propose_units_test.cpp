#include "weft/graph/propose/propose_units.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace propose_units_test {
ProposedPlan proposed_for(const std::vector<std::string>& weights) {
  std::string inputs = "program\n";
  std::string calls;
  std::string x = "x";
  for (size_t k = 0; k < weights.size(); ++k) {
    inputs += c10::str("  input %w", k, ": f32[4,4] = parameter \"", weights[k], ".weight\"\n");
    calls += c10::str("    %y", k, ": f32[3,4] = aten::linear(%", x, ", %w", k, ")\n");
    x = c10::str("y", k);
  }
  ProposedPlan proposed;
  propose_units(
      proposed, parse_program(inputs + "  input %x: f32[3,4] = user\n" + calls + "  output %" + x + " = user"), "dp");
  return proposed;
}

TEST(ProposeUnits, AreTheBlocksOfAListAndTheRest) {
  const auto proposed = proposed_for({"words", "layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "head"});
  EXPECT_EQ(proposed.plan_text(), R"({
  "layers.*": {"shard":"dp"},
  "": {"shard":"dp"}
})");
  ASSERT_EQ(proposed.units.size(), 2U);
  EXPECT_EQ(proposed.units[0].reason, "fully sharded over dp: each of 2 blocks, gathered while another computes");
  EXPECT_EQ(proposed.units[1].reason, "fully sharded over dp: what is in no block");
  EXPECT_EQ(proposed.plan().units().size(), 2U);
}

TEST(ProposeUnits, AreNamedOneByOneWhereAPatternWouldMatchOthers) {
  EXPECT_EQ(proposed_for({"first", "0.up", "0.down", "1.up", "1.down"}).plan_text(), R"({
  "0": {"shard":"dp"},
  "1": {"shard":"dp"},
  "": {"shard":"dp"}
})");
}

TEST(ProposeUnits, AreTheModelAloneWithoutBlocks) {
  for (const auto& weights : std::vector<std::vector<std::string>>{{"a", "b"}, {"0", "1"}, {"layers.0.up", "head"}}) {
    EXPECT_EQ(proposed_for(weights).plan_text(), "{\n  \"\": {\"shard\":\"dp\"}\n}");
  }
}

TEST(ProposeUnits, ShareTheEntryOfAStyle) {
  auto proposed = proposed_for({"layers.0.up", "layers.1.up"});
  proposed.entries.push_back({"layers.*", nn::prepare_output({{.to = Replicate()}}), ""});
  proposed.entries.push_back({"layers.*.up", nn::colwise(), ""});
  EXPECT_EQ(proposed.plan_text(), R"({
  "layers.*": {"outputs":["-> R"],"style":"output","shard":"dp"},
  "layers.*.up": "colwise",
  "": {"shard":"dp"}
})");
  const auto back = nn::ParallelPlan::parse(proposed.plan_text());
  EXPECT_EQ(back.entries().size(), 2U);
  EXPECT_EQ(back.units().size(), 2U);
}

} // namespace propose_units_test
} // namespace weft::graph
