#include "weft/graph/parallelize/module_boundaries.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace module_boundaries_test {
std::string in_call(const std::string& module, int call) {
  const auto suffix = call == 0 ? "" : "@" + std::to_string(call);
  return "L__self__,,Model;L__self__" + module + suffix + "," + module + ",torch.nn.modules.linear.Linear";
}

/// A linear layer that is called twice.
Program twice() {
  auto program = parse_program(R"(
program
input %w: f32[8,8] = parameter "down.weight"
input %x: f32[4,8] = user
  %a: f32[4,8] = aten::linear(%x, %w)
  %r: f32[4,8] = aten::relu(%a)
  %b: f32[4,8] = aten::linear(%r, %w)
  %y: f32[4,8] = aten::add.Tensor(%b, %x)
output %y = user
)");
  auto* node = program.graph->first();
  node->origin.metadata = {{"nn_module_stack", in_call("down", 0)}};
  node->next()->next()->origin.metadata = {{"nn_module_stack", in_call("down", 1)}};
  return program;
}

std::map<std::string, int64_t> collectives(Program program, const nn::Style& style) {
  shard(program, analysis_mesh("tp=2"), nn::ParallelPlan{{"down", style}});
  return summarize(program).collectives;
}

TEST(ModuleBoundaries, EveryCallOfAModuleGivesWhatItsStyleSays) {
  const auto counts = collectives(twice(), nn::rowwise());
  EXPECT_EQ(counts.at("all_reduce"), 2);
  EXPECT_EQ(counts.at("all_gather"), 0);
}

TEST(ModuleBoundaries, OutputsAreRedistributedAsTheStyleSays) {
  const auto counts = collectives(twice(), nn::rowwise({.output = Shard(0)}));
  EXPECT_EQ(counts.at("all_reduce"), 0);
  EXPECT_EQ(counts.at("reduce_scatter"), 2);
}

TEST(ModuleBoundaries, InputsComeWhereTheStyleWantsThem) {
  auto program = twice();
  TensorParallelOptions options;
  options.inputs.emplace("x", Layout({Shard(0)}));
  shard(program, analysis_mesh("tp=2"), nn::ParallelPlan{{"down", nn::colwise()}}, options);
  const auto* gather = program.graph->first();
  ASSERT_NE(gather->step(), nullptr);
  EXPECT_EQ(gather->step()->after.to_string(), "{R}");
}

TEST(ModuleBoundaries, KeywordsRaiseWhereTheProgramDoesNotHaveThem) {
  auto program = twice();
  const auto plan = nn::ParallelPlan::parse(R"({"down": {"style": "input", "keywords": {"mask": "S(0) -> R"}}})", "p");
  testing::expect_contains(
      testing::error_text<c10::ValueError>([&] { shard(program, analysis_mesh("tp=2"), plan); }),
      "[tensor_parallel] plan entry \"down\" for module \"down\": the program must say by which keywords the module "
      "was "
      "called, but it does not, and the style has the keyword \"mask\". Export it with "
      "preserve_module_call_signature=(\"down\",)");
}

TEST(ModuleBoundaries, TheEntryOfTheModelItselfIsForInputsAndOutputs) {
  auto program = twice();
  shard(
      program, analysis_mesh("tp=2"),
      nn::ParallelPlan{{"", nn::prepare_input_output({{.from = Shard(0), .to = Shard(0)}}, {{.to = Shard(0)}})}});
  EXPECT_EQ(program.inputs[1].value->layout->to_string(), "{S(0)}");
  EXPECT_EQ(program.graph->return_node()->operand(0)->layout->to_string(), "{S(0)}");
  EXPECT_EQ(summarize(program).bytes, 0);
}

} // namespace module_boundaries_test

} // namespace weft::graph
