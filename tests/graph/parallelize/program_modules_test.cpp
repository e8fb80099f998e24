#include "weft/graph/parallelize/program_modules.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace program_modules_test {
Program program() {
  auto result = parse_program(R"(
program
input %up_weight: f32[8,4] = parameter "up.weight"
input %own_weight: f32[4,8] = parameter "own.weight"
input %scale: f32[4] = parameter "scale"
input %x: f32[2,4] = user
  %linear: f32[2,8] = aten::linear(%x, %up_weight)
  %t: f32[8,4] = aten::t(%own_weight)
  %mm: f32[2,4] = aten::mm(%linear, %t)
  %mul: f32[2,4] = aten::mul.Tensor(%mm, %scale)
output %mul = user
)");
  auto* node = result.graph->first();
  const auto set = [&](const std::string& stack) {
    node->origin.metadata = {{"nn_module_stack", stack}};
    node = node->next();
  };
  set("L__self__,,Model;L__self__up,up,torch.nn.modules.linear.Linear");
  set("L__self__,,Model;L__self__own@1,own,Mine");
  set("L__self__,,Model;L__self__own@1,own,Mine");
  set("L__self__,,Model");
  return result;
}

TEST(ProgramModules, AreKnownByParametersAndByWhereNodesComeFrom) {
  const auto global = program();
  const ProgramModules modules(global);
  ASSERT_EQ(modules.modules().size(), 3U);
  EXPECT_EQ(modules.modules()[0].path, "");
  EXPECT_EQ(modules.modules()[1].path, "up");
  EXPECT_EQ(modules.modules()[1].kind, nn::ModuleKind::Linear);
  EXPECT_EQ(modules.modules()[1].parameters[0].shape, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(modules.parameters().at("scale").module, 0U);
}

TEST(ProgramModules, ATypeOfOnesOwnIsWhatItsWeightIsUsedAs) {
  const auto global = program();
  EXPECT_EQ(ProgramModules(global).modules()[2].kind, nn::ModuleKind::Linear);
}

TEST(ProgramModules, NodesOfOneCallAreInOneCall) {
  const auto global = program();
  ProgramModules modules(global);
  const auto* linear = global.graph->first();
  const auto* t = linear->next();
  ASSERT_EQ(modules.around(*linear).size(), 1U);
  EXPECT_EQ(modules.around(*linear)[0].module, 1U);
  EXPECT_EQ(modules.around(*t), modules.around(*t->next()));
  EXPECT_TRUE(modules.around(*t->next()->next()).empty());
}

/// An embedding of a type of one's own, called before an output layer with the same weight. An export keeps both names of
/// the weight or, if it is strict, one.
Program tied(bool has_both) {
  auto result = parse_program(
      has_both ? R"(
program
input %words_weight: f32[8,4] = parameter "words.weight"
input %head_weight: f32[8,4] = parameter "head.weight"
input %x: i64[2] = user
  %embedding: f32[2,4] = aten::embedding(%head_weight, %x)
  %linear: f32[2,8] = aten::linear(%embedding, %head_weight)
output %linear = user
)"
               : R"(
program
input %words_weight: f32[8,4] = parameter "words.weight"
input %x: i64[2] = user
  %embedding: f32[2,4] = aten::embedding(%words_weight, %x)
  %linear: f32[2,8] = aten::linear(%embedding, %words_weight)
output %linear = user
)");
  auto* node = result.graph->first();
  node->origin.metadata = {{"nn_module_stack", "L__self__,,Model;L__self__words,words,ScaledWords"}};
  node->next()->origin.metadata = {{"nn_module_stack", "L__self__,,Model;L__self__head,head,Output"}};
  const auto weight = at::ones({8, 4});
  result.tensors["words.weight"] = weight;
  if (has_both) {
    result.tensors["head.weight"] = weight;
  }
  return result;
}

TEST(ProgramModules, OfATiedWeightAreWhatTheCallsInThemUseItAs) {
  for (const bool has_both : {true, false}) {
    const auto global = tied(has_both);
    const ProgramModules modules(global);
    ASSERT_EQ(modules.modules().size(), 3U);
    const auto* words = modules.module_of_weight(*global.graph->first());
    const auto* head = modules.module_of_weight(*global.graph->first()->next());
    ASSERT_TRUE(words != nullptr && head != nullptr);
    EXPECT_EQ(words->path, "words");
    EXPECT_EQ(words->kind, nn::ModuleKind::Embedding);
    EXPECT_EQ(head->path, "head");
    EXPECT_EQ(head->kind, nn::ModuleKind::Linear);
    // Both have the weight, so that a plan that names either shards it.
    ASSERT_TRUE(words->parameters.size() == 1 && head->parameters.size() == 1);
    EXPECT_EQ(words->parameters[0].identity, head->parameters[0].identity);
  }
}

TEST(ProgramModules, OneThatIsNeverCalledIsWhatTheOthersWithItsWeightAre) {
  auto global = parse_program(R"(
program
input %shared_weight: f32[8,4] = parameter "shared.weight"
input %head_weight: f32[8,4] = parameter "head.weight"
input %words_weight: f32[8,4] = parameter "words.weight"
input %x: i64[2] = user
  %embedding: f32[2,4] = aten::embedding(%words_weight, %x)
  %linear: f32[2,8] = aten::linear(%embedding, %head_weight)
output %linear = user
)");
  auto* node = global.graph->first();
  node->origin.metadata = {{"nn_module_stack", "L__self__,,Model;L__self__words,words,torch.nn.Embedding"}};
  node->next()->origin.metadata = {{"nn_module_stack", "L__self__,,Model;L__self__head,head,torch.nn.Linear"}};
  const auto weight = at::ones({8, 4});
  for (const auto* name : {"shared.weight", "head.weight", "words.weight"}) {
    global.tensors[name] = weight;
  }
  const ProgramModules modules(global);
  EXPECT_EQ(modules.modules()[1].path, "shared");
  EXPECT_EQ(modules.modules()[1].kind, nn::ModuleKind::Embedding);
}

TEST(ProgramModules, ALayerThatAStrictExportLeftWithoutItsWeightHasThatOfAnOwnerThatIsNeverCalled) {
  auto global = parse_program(R"(
program
input %shared_weight: f32[8,4] = parameter "shared.weight"
input %x: i64[2] = user
  %embedding: f32[2,4] = aten::embedding(%shared_weight, %x)
  %linear: f32[2,8] = aten::linear(%embedding, %shared_weight)
  %linear_1: f32[2,8] = aten::linear(%embedding, %shared_weight)
output %linear = user
)");
  auto* node = global.graph->first();
  const auto place = [](Node& at, const char* call) { at.origin.metadata = {{"nn_module_stack", call}}; };
  place(*node, "L__self__,,Model;L__self__words,words,models.ScaledWordEmbedding");
  place(*node->next(), "L__self__,,Model;L__self__head,head,torch.nn.Linear");
  place(*node->next()->next(), "L__self__,,Model;L__self__other,other,Functional");
  global.tensors["shared.weight"] = at::ones({8, 4});
  const ProgramModules modules(global);
  EXPECT_EQ(modules.module_of_weight(*node)->path, "words");
  EXPECT_EQ(modules.module_of_weight(*node->next())->path, "head");
  EXPECT_EQ(modules.module_of_weight(*node->next()->next())->path, "shared");
  EXPECT_EQ(modules.modules()[1].kind, nn::ModuleKind::Linear); // the last call is of its own
}

} // namespace program_modules_test

} // namespace weft::graph
