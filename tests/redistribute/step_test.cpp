#include "weft/redistribute/step.h"

#include <gtest/gtest.h>

namespace weft {

namespace step_test {
Step step_of(const char* before, const char* after, std::vector<int64_t> mesh_shape) {
  return redistribute_step(Layout::parse(before), Layout::parse(after), mesh_shape, /*tensor_ndim=*/2);
}

TEST(Step, AddingInnerShardsIsASlice) {
  EXPECT_EQ(step_of("{R, R}", "{S(0), S(1)}", {2, 2}).kind, StepKind::Slice);
  EXPECT_EQ(step_of("{S(0), R}", "{S(0), S(0)}", {2, 2}).kind, StepKind::Slice);
}

TEST(Step, AddingAnOuterShardTransfersData) {
  const auto step = step_of("{R, S(0)}", "{S(0), S(0)}", {2, 2});
  EXPECT_EQ(step.kind, StepKind::AllToAll);
  EXPECT_EQ(step.mesh_dims, MeshDims({0, 1}));
}

TEST(Step, RemovingInnerShardsIsAnAllGatherOverThem) {
  const auto step = step_of("{S(0), S(0)}", "{S(0), R}", {2, 2});
  EXPECT_EQ(step.kind, StepKind::AllGather);
  EXPECT_EQ(step.mesh_dims, MeshDims({1}));
}

TEST(Step, AShardOfAnotherTensorDimDoesNotParticipate) {
  const auto step = step_of("{S(0), S(1), R}", "{R, S(1), S(0)}", {2, 2, 2});
  EXPECT_EQ(step.kind, StepKind::AllToAll);
  EXPECT_EQ(step.mesh_dims, MeshDims({0, 2}));
}

TEST(Step, LaterShardsOfTheSameTensorDimParticipate) {
  // Mesh dim 1 keeps its placement and its position in the shard order, but it divides other shards now.
  const auto step = step_of("{S(0), S(0), R}", "{SS(0,2), S(0), R}", {2, 2, 2});
  EXPECT_EQ(step.kind, StepKind::AllToAll);
  EXPECT_EQ(step.mesh_dims, MeshDims({0, 1}));
}

TEST(Step, AMeshDimOfOneRankShardsNothing) {
  EXPECT_EQ(step_of("{S(0), R}", "{S(1), R}", {1, 2}).kind, StepKind::Slice);
  const auto step = step_of("{S(0), S(0)}", "{R, R}", {1, 2});
  EXPECT_EQ(step.kind, StepKind::AllGather);
  EXPECT_EQ(step.mesh_dims, MeshDims({1}));
  EXPECT_TRUE(same_data(Layout::parse("{S(0), R}"), Layout::parse("{P(sum), R}"), {1, 2}, 2));
  EXPECT_FALSE(same_data(Layout::parse("{S(0), R}"), Layout::parse("{R, R}"), {2, 2}, 2));
}

TEST(Step, TheShardOrderDeterminesTheData) {
  EXPECT_FALSE(same_data(Layout::parse("{S(0), S(0)}"), Layout::parse("{S(0)[1], S(0)[0]}"), {2, 2}, 2));
  EXPECT_TRUE(same_data(Layout::parse("{S(0), S(0)}"), Layout::parse("{S(0)[1], S(0)[0]}"), {1, 2}, 2));
}

TEST(Step, PrintsWhatChangesAndThePositionsIfTheyMatter) {
  const auto mesh = DeviceMesh::parse("mesh(dp=2,tp=2)");
  EXPECT_EQ(step_of("{S(0), R}", "{R, S(1)}", {2, 2}).to_string(mesh), "all_to_all(dp,tp: S(0),R -> R,S(1))");
  EXPECT_EQ(
      step_of("{S(0), S(0)}", "{S(0)[1], S(0)[0]}", {2, 2}).to_string(mesh),
      "all_to_all(dp,tp: S(0)[0],S(0)[1] -> S(0)[1],S(0)[0])");
}

TEST(Step, ReducesSumsAndAveragesAsOneDividedSum) {
  const auto reduction = [](const char* before, const MeshDims& mesh_dims) {
    const auto layout = Layout::parse(before);
    const auto found = reduction_of({StepKind::AllReduce, mesh_dims, layout, layout}, {2, 3, 4});
    return std::string(to_string(found.op)) + "/" + std::to_string(found.divisor);
  };
  EXPECT_EQ(reduction("{P(avg), P(sum), P(avg)}", {0, 1, 2}), "sum/8");
  EXPECT_EQ(reduction("{P(sum), P(avg), P(avg)}", {0, 1}), "sum/3");
  EXPECT_EQ(reduction("{P(avg), P(sum), P(avg)}", {0, 2}), "avg/1");
  EXPECT_EQ(reduction("{P(max), P(max), R}", {0, 1}), "max/1");
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
