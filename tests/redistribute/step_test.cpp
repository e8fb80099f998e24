#include "weft/redistribute/step.h"

#include <gtest/gtest.h>

namespace weft {

namespace step_test {
Step move(const char* before, const char* after, std::vector<int64_t> mesh_shape) {
  return move_step(Layout::parse(before), Layout::parse(after), mesh_shape, /*tensor_rank=*/2);
}

TEST(Step, AddingInnerCutsIsASlice) {
  EXPECT_EQ(move("{R, R}", "{S(0), S(1)}", {2, 2}).kind, StepKind::Slice);
  EXPECT_EQ(move("{S(0), R}", "{S(0), S(0)}", {2, 2}).kind, StepKind::Slice);
}

TEST(Step, AddingAnOuterCutMovesData) {
  const auto step = move("{R, S(0)}", "{S(0), S(0)}", {2, 2});
  EXPECT_EQ(step.kind, StepKind::AllToAll);
  EXPECT_EQ(step.mesh_dims, MeshDims({0, 1}));
}

TEST(Step, RemovingInnerCutsIsAnAllGatherOverThem) {
  const auto step = move("{S(0), S(0)}", "{S(0), R}", {2, 2});
  EXPECT_EQ(step.kind, StepKind::AllGather);
  EXPECT_EQ(step.mesh_dims, MeshDims({1}));
}

TEST(Step, ACutOfAnotherTensorDimTakesNoPart) {
  const auto step = move("{S(0), S(1), R}", "{R, S(1), S(0)}", {2, 2, 2});
  EXPECT_EQ(step.kind, StepKind::AllToAll);
  EXPECT_EQ(step.mesh_dims, MeshDims({0, 2}));
}

TEST(Step, LaterCutsOfTheSameTensorDimTakePart) {
  // Mesh dim 1 keeps its placement and its turn, but its pieces are pieces of others now.
  const auto step = move("{S(0), S(0), R}", "{SS(0,2), S(0), R}", {2, 2, 2});
  EXPECT_EQ(step.kind, StepKind::AllToAll);
  EXPECT_EQ(step.mesh_dims, MeshDims({0, 1}));
}

TEST(Step, AMeshDimOfOneRankCutsNothing) {
  EXPECT_EQ(move("{S(0), R}", "{S(1), R}", {1, 2}).kind, StepKind::Slice);
  const auto step = move("{S(0), S(0)}", "{R, R}", {1, 2});
  EXPECT_EQ(step.kind, StepKind::AllGather);
  EXPECT_EQ(step.mesh_dims, MeshDims({1}));
  EXPECT_TRUE(same_data(Layout::parse("{S(0), R}"), Layout::parse("{P(sum), R}"), {1, 2}, 2));
  EXPECT_FALSE(same_data(Layout::parse("{S(0), R}"), Layout::parse("{R, R}"), {2, 2}, 2));
}

TEST(Step, TheOrderOfCutsIsPartOfTheData) {
  EXPECT_FALSE(same_data(Layout::parse("{S(0), S(0)}"), Layout::parse("{S(0)[1], S(0)[0]}"), {2, 2}, 2));
  EXPECT_TRUE(same_data(Layout::parse("{S(0), S(0)}"), Layout::parse("{S(0)[1], S(0)[0]}"), {1, 2}, 2));
}

TEST(Step, PrintsWhatChangesAndTheTurnsWhereTheyMatter) {
  const auto mesh = DeviceMesh::parse("mesh(dp=2,tp=2)");
  EXPECT_EQ(move("{S(0), R}", "{R, S(1)}", {2, 2}).to_string(mesh), "all_to_all(dp,tp: S(0),R -> R,S(1))");
  EXPECT_EQ(
      move("{S(0), S(0)}", "{S(0)[1], S(0)[0]}", {2, 2}).to_string(mesh),
      "all_to_all(dp,tp: S(0)[0],S(0)[1] -> S(0)[1],S(0)[0])");
}

TEST(Step, OnlySlicesAndPartialsAreLocal) {
  for (const auto kind : {StepKind::AllGather, StepKind::AllToAll, StepKind::ReduceScatter, StepKind::AllReduce}) {
    EXPECT_TRUE(communicates(kind)) << to_string(kind);
  }
  EXPECT_FALSE(communicates(StepKind::Slice));
  EXPECT_FALSE(communicates(StepKind::MakePartial));
}

} // namespace step_test

} // namespace weft
