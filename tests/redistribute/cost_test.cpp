#include "weft/redistribute/cost.h"

#include <gtest/gtest.h>

namespace weft {

namespace cost_test {
class Cost : public ::testing::Test {
 protected:
  double bytes(StepKind kind, MeshDims dims, const char* before, const char* after, std::vector<int64_t> sizes) const {
    const Step step{kind, std::move(dims), Layout::parse(before), Layout::parse(after)};
    return received_bytes(step, {sizes, 4, mesh_.shape(), links_});
  }

  DeviceMesh mesh_ = DeviceMesh::parse("mesh(dp=2,tp=4)");
  LinkModel links_{
      .links = {{.latency_seconds = 3, .bytes_per_second = 8}, {.latency_seconds = 1, .bytes_per_second = 2}}};
};

TEST_F(Cost, CountsTheBytesThatARankReceives) {
  // 8 x 8 floats are 256 bytes.
  EXPECT_EQ(bytes(StepKind::AllGather, {1}, "{R, S(0)}", "{R, R}", {8, 8}), 192);
  EXPECT_EQ(bytes(StepKind::AllToAll, {1}, "{R, S(0)}", "{R, S(1)}", {8, 8}), 48);
  EXPECT_EQ(bytes(StepKind::ReduceScatter, {1}, "{R, P(sum)}", "{R, S(0)}", {8, 8}), 192);
  EXPECT_EQ(bytes(StepKind::AllReduce, {1}, "{R, P(sum)}", "{R, R}", {8, 8}), 384);
  EXPECT_EQ(bytes(StepKind::Slice, {1}, "{R, R}", "{R, S(0)}", {8, 8}), 0);
  EXPECT_EQ(bytes(StepKind::MakePartial, {1}, "{R, R}", "{R, P(sum)}", {8, 8}), 0);
}

TEST_F(Cost, AssumesEvenShardsOfAtLeastOneElement) {
  // 6 rows on 4 ranks are 1.5 each; of 2 rows some rank holds one.
  EXPECT_EQ(bytes(StepKind::AllGather, {1}, "{R, S(0)}", "{R, R}", {6, 1}), 18);
  EXPECT_EQ(bytes(StepKind::ReduceScatter, {1}, "{R, P(sum)}", "{R, S(0)}", {2, 1}), 12);
}

TEST_F(Cost, SomeRankHoldsNothingThatItWantsIfTheShardOrdersDiffer) {
  EXPECT_EQ(bytes(StepKind::AllToAll, {0, 1}, "{S(0), R}", "{R, S(0)}", {8, 8}), 64);
  EXPECT_EQ(bytes(StepKind::AllToAll, {0, 1}, "{S(0), S(0)}", "{S(0)[1], S(0)[0]}", {8, 8}), 32);
}

TEST_F(Cost, AddsTheLatencyAndTheBytesOfTheSlowestLink) {
  const std::vector<int64_t> sizes = {8, 8};
  const CostContext context{sizes, 4, mesh_.shape(), links_};
  const auto gather = [&](MeshDims dims, const char* before) {
    return cost({StepKind::AllGather, std::move(dims), Layout::parse(before), Layout::parse("{R, R}")}, context);
  };
  EXPECT_NEAR(gather({1}, "{R, S(0)}"), 1 + 192.0 / 2, 1e-6);
  EXPECT_NEAR(gather({0}, "{S(0), R}"), 3 + 128.0 / 8, 1e-6);
  EXPECT_NEAR(gather({0, 1}, "{S(0), S(0)}"), 3 + 224.0 / 2, 1e-6);
}

TEST_F(Cost, ALocalStepCostsLessThanAnyCollective) {
  const std::vector<int64_t> sizes = {0, 8};
  const auto links = LinkModel::for_mesh(mesh_);
  const CostContext context{sizes, 4, mesh_.shape(), links};
  const auto slice = cost({StepKind::Slice, {1}, Layout::parse("{R, R}"), Layout::parse("{R, S(0)}")}, context);
  const auto gather = cost({StepKind::AllGather, {1}, Layout::parse("{R, S(0)}"), Layout::parse("{R, R}")}, context);
  EXPECT_GT(slice, 0);
  EXPECT_LT(slice, gather / 100);
}

TEST_F(Cost, AssumesFasterLinksBetweenCudaDevices) {
  const auto cpu = LinkModel::for_mesh(DeviceMesh::parse("mesh(dp=2,tp=4)"));
  const auto cuda = LinkModel::for_mesh(DeviceMesh::parse("mesh(dp=2,tp=4; cuda)"));
  ASSERT_EQ(cpu.links.size(), 2);
  EXPECT_GT(cuda.links[0].bytes_per_second, cpu.links[0].bytes_per_second);
}

} // namespace cost_test

} // namespace weft
