#include "weft/graph/parallelize/tied_modules.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace tied_modules_test {
using Notes = std::vector<std::string>;

Notes notes_of(const nn::ParallelPlan& plan) {
  auto program = parse_program(R"(program
    input %w: f32[8,4] = parameter "words.weight"
    input %h: f32[8,4] = parameter "head.weight"
    input %x: i64[2] = user
      %e: f32[2,4] = aten::embedding(%w, %x)
      %y: f32[2,8] = aten::linear(%e, %h)
    output %y = user)");
  program.tensors["words.weight"] = program.tensors["head.weight"] = at::ones({8, 4});
  auto* node = program.graph->first();
  node->origin.metadata = {{"nn_module_stack", "L__self__,,Model;L__self__words,words,torch.nn.Embedding"}};
  node->next()->origin.metadata = {{"nn_module_stack", "L__self__,,Model;L__self__head,head,torch.nn.Linear"}};
  return tied_module_notes(program, plan);
}

TEST(TiedModules, APlanThatNamesOneOfThemIsToldAboutTheOther) {
  EXPECT_EQ(
      notes_of({{"word*", nn::rowwise()}}),
      Notes{"plan entry \"word*\" shards the weight of \"words\", which \"head\" has too: \"head\" is colwise"});
  EXPECT_EQ(
      notes_of({{"head", nn::rowwise()}}),
      Notes{"plan entry \"head\" shards the weight of \"head\", which \"words\" has too: \"words\" is colwise"});
}

TEST(TiedModules, APlanThatNamesBothOrNeitherIsToldNothing) {
  EXPECT_EQ(notes_of({{"words", nn::rowwise()}, {"head", nn::colwise()}}), Notes{});
  EXPECT_EQ(notes_of(nn::ParallelPlan{}), Notes{});
}

} // namespace tied_modules_test

} // namespace weft::graph
