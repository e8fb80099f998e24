#include "weft/graph/propose/weighted_layers.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace weighted_layers_test {
std::map<std::string, WeightedLayer> layers_by_output(const Program& program) {
  ProgramModules modules(program);
  std::map<std::string, WeightedLayer> result;
  for (const auto& [node, layer] : find_weighted_layers(program, modules)) {
    result.emplace(node->output()->name(), layer);
  }
  return result;
}

TEST(WeightedLayers, AreFoundByWhatIsDoneWithParameters) {
  const auto program = parse_program(R"(program
    input %table: f32[50,4] = parameter "words.weight"
    input %a: f32[6,4] = parameter "layers.0.up.weight"
    input %b: f32[4,6] = parameter "layers.0.down.weight"
    input %bias: f32[4] = parameter "layers.0.down.bias"
    input %loose: f32[4,4] = parameter "mix"
    input %x: i64[3] = user
      %e: f32[3,4] = aten::embedding(%table, %x)
      %l: f32[3,6] = aten::linear(%e, %a)
      %t: f32[6,4] = aten::permute(%b, [1, 0])
      %m: f32[3,4] = aten::addmm(%bias, %l, %t)
      %n: f32[3,4] = aten::mm(%m, %loose)
      %o: f32[3,3] = aten::mm(%n, %n)
    output %o = user)");
  const auto layers = layers_by_output(program);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers.at("e").module, "words");
  EXPECT_TRUE(layers.at("e").is_embedding);
  EXPECT_EQ(layers.at("e").rows, 50);
  EXPECT_EQ(layers.at("e").input->name(), "x");
  EXPECT_EQ(layers.at("l").module, "layers.0.up");
  EXPECT_EQ(layers.at("l").rows, 6);
  EXPECT_EQ(layers.at("m").module, "layers.0.down");
  EXPECT_EQ(layers.at("m").input->name(), "l");
  EXPECT_EQ(layers.at("m").rows, 4);
}

TEST(WeightedLayers, AStackIsNamedByItsParameter) {
  const auto layers = layers_by_output(parse_program(R"(program
    input %w: f32[2,4,6] = parameter "experts.up"
    input %x: f32[3,4] = user
    input %ends: i32[2] = user
      %y: f32[3,6] = aten::_grouped_mm(%x, %w, %ends)
    output %y = user)"));
  ASSERT_EQ(layers.count("y"), 1u);
  EXPECT_EQ(layers.at("y").module, "experts.up");
  EXPECT_EQ(layers.at("y").rows, 6);
  ASSERT_TRUE(layers.at("y").stack);
  EXPECT_EQ(layers.at("y").stack->owner, "experts");
  EXPECT_TRUE(layers.at("y").stack->is_transposed);
}

TEST(WeightedLayers, MayBeRepeatedForEveryRowOfABatch) {
  const auto program = parse_program(R"(program
    input %w: f32[6,4] = parameter "up.weight"
    input %x: f32[2,3,4] = user
      %t: f32[4,6] = aten::permute(%w, [1, 0])
      %e: f32[2,4,6] = aten::expand(%t, [2, 4, 6])
      %v: f32[2,4,6] = aten::view(%e, [2, 4, 6])
      %y: f32[2,3,6] = aten::bmm(%x, %v)
    output %y = user)");
  auto* product = program.graph->return_node()->operand(0)->producer();
  product->origin.metadata = {{"nn_module_stack", "up,up,torch.nn.modules.linear.Linear"}};
  const auto layers = layers_by_output(program);
  ASSERT_EQ(layers.count("y"), 1u);
  EXPECT_EQ(layers.at("y").module, "up");
  EXPECT_EQ(layers.at("y").rows, 6);
}

} // namespace weighted_layers_test

} // namespace weft::graph
