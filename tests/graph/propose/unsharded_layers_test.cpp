#include "weft/graph/propose/unsharded_layers.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace unsharded_layers_test {
/// A table and two feed-forwards.
constexpr const char* kProgram = R"(program
  input %words: f32[10,4] = parameter "words.weight"
  input %a0: f32[8,4] = parameter "layers.0.up.weight"
  input %b0: f32[4,8] = parameter "layers.0.down.weight"
  input %a1: f32[8,4] = parameter "layers.1.up.weight"
  input %b1: f32[4,8] = parameter "layers.1.down.weight"
  input %x: i64[3] = user
    %e: f32[3,4] = aten::embedding(%words, %x)
    %u0: f32[3,8] = aten::linear(%e, %a0)
    %g0: f32[3,8] = aten::relu(%u0)
    %d0: f32[3,4] = aten::linear(%g0, %b0)
    %u1: f32[3,8] = aten::linear(%d0, %a1)
    %g1: f32[3,8] = aten::relu(%u1)
    %d1: f32[3,4] = aten::linear(%g1, %b1)
  output %d1 = user)";

std::optional<std::string> note_of(const nn::ParallelPlan& plan, int64_t ranks = 2) {
  return unsharded_layers_note(parse_program(kProgram), plan, ranks);
}

TEST(UnshardedLayers, AreNamedAsTheProposedPlanNamesThem) {
  EXPECT_EQ(
      note_of({{"words", nn::rowwise()}}),
      "the plan does not name layers with 76% of the parameters, which every rank holds and `weft plan` would shard: "
      "layers.*.up, layers.*.down. Give them a style, or \"replicate\" if that is meant.");
}

TEST(UnshardedLayers, AreNotToldWhereTheyAreFewOrMeant) {
  const nn::ParallelPlan all = {
      {"words", nn::rowwise()}, {"layers.*.up", nn::colwise()}, {"layers.*.down", nn::rowwise()}};
  EXPECT_EQ(note_of(all), std::nullopt);
  EXPECT_EQ(note_of({{"words", nn::rowwise()}, {"layers.*.*", nn::replicate()}}), std::nullopt);
  EXPECT_EQ(note_of({{"layers.*.*", nn::replicate()}}), std::nullopt); // the plan shards nothing
  EXPECT_EQ(note_of({{"words", nn::rowwise()}}, 1), std::nullopt);
}

TEST(UnshardedLayers, AStyleOfOutputsSaysNothingOfParameters) {
  const nn::Style output = {.kind = nn::StyleKind::Output, .outputs = {nn::Crossing::parse("-> R")}};
  const auto note = note_of({{"words", nn::rowwise()}, {"layers.*.up", output}, {"layers.*.down", nn::replicate()}});
  ASSERT_TRUE(note.has_value());
  EXPECT_NE(note->find("38% of the parameters"), std::string::npos) << *note;
}

} // namespace unsharded_layers_test

} // namespace weft::graph
