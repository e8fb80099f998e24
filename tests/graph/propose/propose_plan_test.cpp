#include "weft/graph/propose/propose_plan.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace propose_plan_test {
/// Two feed-forwards between an embedding and an output, and an embedding of positions.
constexpr const char* kProgram = R"(program
  input %words: f32[100,4] = parameter "words.weight"
  input %places: f32[100,4] = parameter "places.weight"
  input %a0: f32[8,4] = parameter "layers.0.up.weight"
  input %b0: f32[4,8] = parameter "layers.0.down.weight"
  input %a1: f32[8,4] = parameter "layers.1.up.weight"
  input %b1: f32[4,8] = parameter "layers.1.down.weight"
  input %h: f32[100,4] = parameter "head.weight"
  input %x: i64[3] = user
    %e: f32[3,4] = aten::embedding(%words, %x)
    %r: i64[3] = aten::arange(3)
    %p: f32[3,4] = aten::embedding(%places, %r)
    %s: f32[3,4] = aten::add.Tensor(%e, %p)
    %u0: f32[3,8] = aten::linear(%s, %a0)
    %g0: f32[3,8] = aten::relu(%u0)
    %d0: f32[3,4] = aten::linear(%g0, %b0)
    %u1: f32[3,8] = aten::linear(%d0, %a1)
    %g1: f32[3,8] = aten::relu(%u1)
    %d1: f32[3,4] = aten::linear(%g1, %b1)
    %y: f32[3,100] = aten::linear(%d1, %h)
  output %y = user)";

TEST(ProposePlan, PairsTablesAndOutputsWithOneEntryForAllLayers) {
  const auto proposed = propose_plan(parse_program(kProgram), 2);
  EXPECT_EQ(proposed.plan_text(), R"({
  "words": "rowwise",
  "layers.*.up": "colwise",
  "layers.*.down": "rowwise",
  "head": "colwise"
})");
  ASSERT_EQ(proposed.entries.size(), 4u);
  EXPECT_EQ(proposed.entries[0].reason, "a table of 100 rows, looked up by what the program is given");
  EXPECT_EQ(proposed.entries[1].reason, "feed-forward: its features stay apart until layers.*.down sums them up");
  EXPECT_EQ(proposed.entries[2].reason, "sums up, by one all_reduce, what comes of layers.*.up");
  EXPECT_EQ(proposed.entries[3].reason, "gives output 0, whose 100 features are gathered");
  ASSERT_EQ(proposed.left_out.size(), 1u);
  EXPECT_EQ(proposed.left_out[0].pattern, "places");
}

TEST(ProposePlan, IsOneThatCommunicatesOncePerPair) {
  auto program = parse_program(kProgram);
  shard(program, analysis_mesh("tp=2"), propose_plan(program, 2).plan());
  const auto summary = summarize(program);
  EXPECT_EQ(summary.collectives.at("all_reduce"), 3);
  EXPECT_EQ(summary.collectives.at("all_gather"), 1);
}

/// Two layers of experts, whose weights are [experts, outputs, inputs] or [experts, inputs, outputs].
std::string experts_text(bool is_transposed) {
  std::string inputs;
  std::string calls;
  std::string x = "x";
  for (const auto* i : {"0", "1"}) {
    const auto weight = [&](const std::string& name, const std::string& sizes) {
      inputs += "input %" + name + i + ": f32[" + sizes + "] = parameter \"layers." + i + "." + name + "\"\n";
    };
    weight("up", is_transposed ? "2,4,16" : "2,16,4");
    weight("down", is_transposed ? "2,8,4" : "2,4,8");
    const auto product = [&](const std::string& name, const std::string& input, int inputs_of, int outputs) {
      auto used = name;
      if (!is_transposed) {
        used += "_t";
        calls += c10::str("%", used, i, ": f32[2,", inputs_of, ",", outputs, "] = aten::mT(%", name, i, ")\n");
      }
      calls +=
          c10::str("%y_", name, i, ": f32[3,", outputs, "] = aten::_grouped_mm(%", input, ", %", used, i, ", %ends)\n");
    };
    product("up", x, 4, 16);
    calls += c10::str("[%g", i, ": f32[3,8], %h", i, ": f32[3,8]] = aten::chunk(%y_up", i, ", 2, 1)\n");
    calls += c10::str("%m", i, ": f32[3,8] = aten::mul.Tensor(%g", i, ", %h", i, ")\n");
    product("down", c10::str("m", i), 8, 4);
    x = c10::str("y_down", i);
  }
  return "program\n" + inputs + "input %x: f32[3,4] = user\ninput %ends: i32[2] = user\n" + calls + "output %" + x +
      " = user";
}

TEST(ProposePlan, ShardsExpertsByTheirParameters) {
  EXPECT_EQ(propose_plan(parse_program(experts_text(false)), 2).plan_text(), R"({
  "layers.*.up": {"style":"colwise","parts":2},
  "layers.*.down": "rowwise",
  "layers.*": {"outputs":["-> R"],"style":"output"}
})");
  EXPECT_EQ(propose_plan(parse_program(experts_text(true)), 2).plan_text(), R"({
  "layers.*.up": {"dim":2,"parts":2,"style":"shard"},
  "layers.*.down": {"dim":1,"style":"shard"},
  "layers.*": {"outputs":["-> R"],"style":"output"}
})");
  for (const bool is_transposed : {false, true}) {
    auto program = parse_program(experts_text(is_transposed));
    const auto proposed = propose_plan(program, 2);
    EXPECT_EQ(proposed.replicated, 0);
    shard(program, analysis_mesh("tp=2"), proposed.plan());
    EXPECT_EQ(summarize(program).collectives.at("all_reduce"), 2);
  }
}

TEST(ProposePlan, ANormOverAllFeaturesReducesItsMomentsAlone) {
  auto program = parse_program(R"(program
  input %a: f32[8,4] = parameter "up.weight"
  input %b: f32[4,8] = parameter "down.weight"
  input %x: f32[3,4] = user
    %p: f32[3,8] = aten::linear(%x, %a)
    %q: f32[3,8] = aten::pow.Tensor_Scalar(%p, 2)
    %m: f32[3,1] = aten::mean.dim(%q, [-1], True)
    %e: f32[3,1] = aten::add.Tensor(%m, 1e-06)
    %r: f32[3,1] = aten::rsqrt(%e)
    %n: f32[3,8] = aten::mul.Tensor(%p, %r)
    %d: f32[3,4] = aten::linear(%n, %b)
  output %d = user)");
  const auto proposed = propose_plan(program, 2);
  EXPECT_EQ(
      proposed.entries[0].reason,
      "feed-forward: its features stay apart until down sums them up; a norm over them all-reduces its moments");
  shard(program, analysis_mesh("tp=2"), proposed.plan());
  const auto collectives = summarize(program).collectives;
  EXPECT_EQ(collectives.at("all_reduce"), 2);
  EXPECT_EQ(collectives.at("reduce_scatter") + collectives.at("all_gather"), 0);
}

TEST(ProposePlan, SmallEndsStayReplicated) {
  const auto proposed = propose_plan(parse_program(kProgram), 16);
  EXPECT_EQ(proposed.entries.size(), 2u);
  ASSERT_EQ(proposed.left_out.size(), 3u);
  EXPECT_EQ(proposed.left_out[0].reason, "left replicated: it has 100 rows alone");
  EXPECT_EQ(proposed.left_out[2].reason, "left replicated: it has 100 features alone");
}

TEST(ProposePlan, AModuleThatIsCalledInDifferentWaysStaysReplicated) {
  const auto proposed = propose_plan(
      parse_program(R"(program
        input %a: f32[4,4] = parameter "a.weight"
        input %b: f32[4,4] = parameter "b.weight"
        input %x: f32[3,4] = user
          %p: f32[3,4] = aten::linear(%x, %a)
          %q: f32[3,4] = aten::linear(%p, %b)
          %s: f32[3,4] = aten::softmax.int(%q, -1)
          %t: f32[3,4] = aten::linear(%s, %b)
          %u: f32[3,4] = aten::linear(%t, %a)
        output %u = user)"),
      2);
  EXPECT_TRUE(proposed.entries.empty()) << proposed.to_json();
  EXPECT_EQ(proposed.left_out.size(), 2u);
}

} // namespace propose_plan_test

} // namespace weft::graph
