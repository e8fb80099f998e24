#include "tests/support/forms_of.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace step_forms_test {
using testing::forms_of;

/// The form found of one step on a tensor of these sizes on mesh(dp=2,tp=2).
std::string step_on(
    const std::string& mesh,
    const std::string& sizes,
    const std::string& before,
    const std::string& step,
    const std::string& after) {
  return forms_of(
      "program @ mesh(" + mesh + ")\n symbol s0 = 4 in [2, 64]\n input %x: f32[" + sizes + "] {" + before +
      "} = user\n %y: f32[" + sizes + "] {" + after + "} = " + step + ": {" + before + "} -> {" + after +
      "})\n output %y = user");
}

TEST(StepForms, AGatherOfOneTensorDimIsOne) {
  EXPECT_EQ(step_on("tp=2", "4,8", "S(0)", "all_gather(%x, tp", "R"), "gather %x -> %y along 0 over tp of 2: %y\n");
  EXPECT_EQ(step_on("tp=4", "4,8", "S(1)", "all_gather(%x, tp", "R"), "gather %x -> %y along 1 over tp of 4: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "4,8", "S(1), S(0)", "all_gather(%x, tp", "S(1), R"),
      "gather %x -> %y along 0 over tp of 2: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "4,8", "P(sum), S(0)", "all_gather(%x, tp", "P(sum), R"),
      "gather %x -> %y along 0 over tp of 2: %y\n");
}

TEST(StepForms, ShardsThatAreNotAllOfOneSizeSayOfWhich) {
  EXPECT_EQ(
      step_on("tp=4", "5,8", "S(0)", "all_gather(%x, tp", "R"), "gather %x -> %y along 0 of size 5 over tp of 4: %y\n");
  EXPECT_EQ(
      step_on("tp=4", "3,8", "P(sum)", "reduce_scatter(%x, tp", "S(0)"),
      "scatter(sum) %x -> %y along 0 of size 3 over tp of 4: %y\n");
  // A symbolic size may not divide evenly; one that is a multiple of the members does.
  EXPECT_EQ(
      step_on("tp=2", "s0,8", "S(0)", "all_gather(%x, tp", "R"),
      "gather %x -> %y along 0 of size s0 over tp of 2: %y\n");
  EXPECT_EQ(step_on("tp=2", "4*s0,8", "S(0)", "all_gather(%x, tp", "R"), "gather %x -> %y along 0 over tp of 2: %y\n");
}

TEST(StepForms, ADimThatOuterMeshDimsShardIsGatheredToTheirShard) {
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "S(0), S(0)", "all_gather(%x, tp", "S(0), R"),
      "gather %x -> %y along 0 over tp of 2: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "6,8", "S(0), S(0)", "all_gather(%x, tp", "S(0), R"),
      "gather %x -> %y along 0 of size 3 over tp of 2: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "5,8", "S(0), S(0)", "all_gather(%x, tp", "S(0), R"),
      "gather %y: dim 0 of size 5 is sharded over dp too, into shards of different sizes\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "24,8", "SS(0,4:1:1), S(0)", "all_gather(%x, tp", "SS(0,4:1:1), R"),
      "gather %y: dim 0 is sharded over dp too, as SS(0,4:1:1)\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "24,8", "S(0|16:8), S(0)", "all_gather(%x, tp", "S(0|16:8), R"),
      "gather %y: dim 0 is sharded over dp too, as S(0|16:8)\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "S(0), P(sum)", "reduce_scatter(%x, tp", "S(0), S(0)"),
      "scatter(sum) %x -> %y along 0 over tp of 2: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "SS(0,2), S(0)", "all_gather(%x, tp", "SS(0,2), R"),
      "gather %x -> %y along 0 over tp of 2: %y\n");
}

TEST(StepForms, SeveralMeshDimsAreOneGroupWhereTheyShardInItsOrder) {
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "S(0), S(0)", "all_gather(%x, dp,tp", "R, R"),
      "gather %x -> %y along 0 over dp,tp of 4: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "S(0)[1], S(0)[0]", "all_gather(%x, dp,tp", "R, R"),
      "gather %y: the shards of dim 0 are in another order than the members of dp,tp\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "P(sum), P(sum)", "reduce_scatter(%x, dp,tp", "S(1), S(1)"),
      "scatter(sum) %x -> %y along 1 over dp,tp of 4: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "P(sum), P(sum)", "reduce_scatter(%x, dp,tp", "S(1)[1], S(1)[0]"),
      "scatter %y: the shards of dim 1 are in another order than the members of dp,tp\n");
  // 7 over dp is 4 and 3, and over tp 2, 2, 2, 1, as torch.chunk divides 7 into four; 5 is 2, 1, 1, 1, which differs.
  EXPECT_EQ(
      step_on("dp=2,tp=2", "7,8", "S(0), S(0)", "all_gather(%x, dp,tp", "R, R"),
      "gather %x -> %y along 0 of size 7 over dp,tp of 4: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "5,8", "S(0), S(0)", "all_gather(%x, dp,tp", "R, R"),
      "gather %y: sharding 5 over dp,tp one after the other is not dividing it into 4\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "s0,8", "S(0), S(0)", "all_gather(%x, dp,tp", "R, R"),
      "gather %y: sharding s0 over dp,tp one after the other is not dividing it into 4\n");
}

TEST(StepForms, MeshDimsOfOneRankDoNotCount) {
  EXPECT_EQ(
      step_on("dp=1,tp=2", "8,8", "S(1), S(0)", "all_gather(%x, dp,tp", "R, R"),
      "gather %x -> %y along 0 over dp,tp of 2: %y\n");
  EXPECT_EQ(step_on("tp=1", "8,8", "S(0)", "all_gather(%x, tp", "R"), "gather %y: the group has one member\n");
}

TEST(StepForms, WhatIsNotOneDimIsRefused) {
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "S(0), S(1)", "all_gather(%x, dp,tp", "R, R"),
      "gather %y: dims 0 and 1 are sharded at once\n");
  EXPECT_EQ(
      step_on("tp=2", "8,8", "SS(0,2)", "all_gather(%x, tp", "R"), "gather %y: the shards of dim 0 are strided\n");
  EXPECT_EQ(
      step_on("tp=2", "8,8", "P(sum)", "reduce_scatter(%x, tp", "SS(0,2)"),
      "scatter %y: the shards of dim 0 are strided\n");
  EXPECT_EQ(step_on("tp=2", "0,8", "S(0)", "all_gather(%x, tp", "R"), "gather %y: the tensor has no elements\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "P(sum), P(avg)", "reduce_scatter(%x, dp,tp", "S(0), S(0)"),
      "scatter %y: the terms are reduced in several ways at once\n");
}

TEST(StepForms, AnAllReduceIsOne) {
  EXPECT_EQ(step_on("tp=2", "8,8", "P(avg)", "all_reduce(%x, tp", "R"), "reduction(avg) %x -> %y over tp of 2: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "P(sum), P(sum)", "all_reduce(%x, dp,tp", "R, R"),
      "reduction(sum) %x -> %y over dp,tp of 4: %y\n");
  EXPECT_EQ(
      step_on("dp=2,tp=2", "8,8", "P(sum), P(avg)", "all_reduce(%x, dp,tp", "R, R"),
      "reduction %y: the terms are reduced in several ways at once\n");
}

TEST(StepForms, AScatterSaysWhetherOthersUseTheFullTensor) {
  EXPECT_EQ(
      forms_of(R"(program @ mesh(tp=2)
      input %x: f32[4,8] {P(sum)} = user
        %y: f32[4,8] {S(0)} = reduce_scatter(%x, tp: {P(sum)} -> {S(0)})
      output %y = user
      output %x = user)"),
      "scatter(sum) %x -> %y along 0 over tp of 2: %y; kept\n");
}

} // namespace step_forms_test

} // namespace weft::graph
