#include "weft/comm/comm_log.h"

#include "weft/comm/collectives.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace comm_log_test {

DeviceMesh fake_mesh() {
  return DeviceMesh(make_fake_world(8), c10::kCPU, {2, 4}, {"dp", "tp"});
}

TEST(CommLog, HasARowPerCollectiveMeshDimsAndOperator) {
  const auto mesh = fake_mesh();
  const CommLog log(mesh);
  all_gather(at::ones({10}), mesh, 1, 0);
  {
    const OperatorScope linear("aten::linear");
    all_gather(at::ones({10}), mesh, 1, 0);
    all_gather(at::ones({10}), mesh, 1, 0);
    {
      const OperatorScope inner("aten::mm");
      all_reduce(at::ones({10}), mesh, 0, ReduceOp::Sum);
    }
    broadcast(at::ones({10}), mesh, {0, 1}, 3);
  }
  EXPECT_EQ(
      log.to_string(),
      "all_gather tp - 1 calls 120 bytes\n"
      "all_gather tp aten::linear 2 calls 240 bytes\n"
      "all_reduce dp aten::mm 1 calls 40 bytes\n"
      "broadcast dp,tp aten::linear 1 calls 40 bytes\n");
  const auto rows = log.rows();
  ASSERT_EQ(rows.size(), 4);
  EXPECT_EQ(rows[1].collective, Collective::AllGather);
  EXPECT_EQ(rows[1].mesh_dims, "tp");
  EXPECT_EQ(rows[1].operator_name, "aten::linear");
  EXPECT_EQ(rows[1].calls, 2);
  EXPECT_EQ(rows[1].bytes, 240);
  EXPECT_EQ(log.calls(), 5);
  EXPECT_EQ(log.bytes(), 440);
}

TEST(CommLog, TellsAListenerOfEveryCallWhileItIsThere) {
  const auto mesh = fake_mesh();
  std::vector<Collective> heard;
  {
    const CommLog log(mesh, [&](Collective collective) {
      heard.push_back(collective);
      EXPECT_EQ(log.calls(), static_cast<int64_t>(heard.size())); // without a deadlock
    });
    const CommLog inner(mesh);
    all_gather(at::ones({10}), mesh, 1, 0);
    all_reduce(at::ones({10}), mesh, 0, ReduceOp::Sum);
  }
  all_gather(at::ones({10}), mesh, 1, 0);
  EXPECT_EQ(heard, (std::vector<Collective>{Collective::AllGather, Collective::AllReduce}));
}

TEST(CommLog, CountsOnlyWhileItIsThere) {
  const auto mesh = fake_mesh();
  all_gather(at::ones({10}), mesh, 1, 0);
  {
    const CommLog log(mesh);
    EXPECT_EQ(log.calls(), 0);
    EXPECT_EQ(log.to_string(), "");
  }
  EXPECT_NO_THROW(all_gather(at::ones({10}), mesh, 1, 0));
}

TEST(CommLog, NestedLogsEachCountAll) {
  const auto mesh = fake_mesh();
  const CommLog outer(mesh);
  all_gather(at::ones({10}), mesh, 1, 0);
  {
    const CommLog inner(mesh);
    all_gather(at::ones({10}), mesh, 1, 0);
    EXPECT_EQ(inner.calls(), 1);
  }
  all_gather(at::ones({10}), mesh, 1, 0);
  EXPECT_EQ(outer.calls(), 3);
}

TEST(CommLog, CanBeCleared) {
  const auto mesh = fake_mesh();
  CommLog log(mesh);
  all_gather(at::ones({10}), mesh, 1, 0);
  log.clear();
  EXPECT_EQ(log.calls(), 0);
  all_gather(at::ones({10}), mesh, 1, 0);
  EXPECT_EQ(log.bytes(), 120);
}

TEST(CommLog, CountsItsOwnRankOnly) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const CommLog log(mesh);
    broadcast(at::ones({10}), mesh, 0, /*root=*/0).wait();
    EXPECT_EQ(log.calls(), 1);
    EXPECT_EQ(log.bytes(), rank == 0 ? 0 : 40);
  });
}

TEST(CommLog, NothingIsCountedWhereAGroupHasOneMember) {
  const DeviceMesh mesh(make_fake_world(4), c10::kCPU, {4, 1}, {"dp", "tp"});
  const CommLog log(mesh);
  all_gather(at::ones({10}), mesh, 1, 0);
  EXPECT_EQ(log.calls(), 0);
}

} // namespace comm_log_test

} // namespace weft
