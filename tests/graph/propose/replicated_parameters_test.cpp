#include "weft/graph/propose/replicated_parameters.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace replicated_parameters_test {
/// A layer for patches of an image, a norm and a table.
constexpr const char* kProgram = R"(program
  input %p0: f32[4,3,2,2] = parameter "stages.0.patches.weight"
  input %p1: f32[4,4,2,2] = parameter "stages.1.patches.weight"
  input %n: f32[8] = parameter "norm.weight"
  input %w: f32[64,8] = parameter "words.weight"
  input %unused: f32[5,5] = parameter "unused"
  input %x: f32[1,3,8,8] = user
  input %i: i64[3] = user
    %a: f32[1,4,7,7] = aten::conv2d(%x, %p0)
    %b: f32[1,4,6,6] = aten::conv2d(%a, %p1)
    %e: f32[3,8] = aten::embedding(%w, %i)
    %y: f32[3,8] = aten::mul.Tensor(%e, %n)
  output %y = user
  output %b = user)";

TEST(ReplicatedParameters, AreCountedAndThoseOfSeveralDimsNamedWithTheirUse) {
  const auto program = parse_program(kProgram);
  ProposedPlan proposed;
  proposed.entries.push_back({"words", nn::rowwise(), ""});
  add_replicated_parameters(proposed, program, 2);
  EXPECT_EQ(proposed.parameters, 48 + 64 + 8 + 512 + 25);
  EXPECT_EQ(proposed.replicated, 48 + 64 + 8 + 25);
  ASSERT_EQ(proposed.left_out.size(), 2U);
  EXPECT_EQ(proposed.left_out[0].pattern, "stages.*.patches.weight");
  EXPECT_EQ(proposed.left_out[0].reason, "left replicated: aten::conv2d uses it, for which there is no style");
  EXPECT_EQ(proposed.left_out[1].pattern, "unused");
  EXPECT_EQ(proposed.left_out[1].reason, "left replicated: nothing uses it");
}

TEST(ReplicatedParameters, ThoseThatHaveAReasonKeepIt) {
  const auto program = parse_program(kProgram);
  ProposedPlan proposed;
  for (const auto* pattern : {"words", "stages.*.patches", "unused"}) {
    proposed.left_out.push_back({pattern, "left replicated: for the test"});
  }
  add_replicated_parameters(proposed, program, 2);
  EXPECT_EQ(proposed.left_out.size(), 3U);
  EXPECT_EQ(proposed.replicated, proposed.parameters);
}

} // namespace replicated_parameters_test

} // namespace weft::graph
