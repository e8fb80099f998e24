#include "weft/comm/collectives.h"

#include "tests/support/collective_checks.h"
#include "tests/support/error_text.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace collectives_test {

using testing::error_text;
using testing::expect_contains;

void check_on_threads(std::vector<int64_t> shape) {
  const auto size = c10::multiply_integers(shape);
  run_on_ranks(size, [&](int64_t) { testing::check_all(init_device_mesh("cpu", shape)); });
}

void expect_ok(const std::vector<testing::Outcome>& ranks) {
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank.exit_code, 0) << describe(ranks);
    EXPECT_TRUE(rank.has_line("all checks hold")) << describe(ranks);
  }
}

TEST(Collectives, HoldOnThreadsForOneToFourRanks) {
  for (const int64_t size : {1, 2, 3, 4}) {
    EXPECT_NO_THROW(check_on_threads({size})) << size << " ranks";
  }
}

TEST(Collectives, HoldOnThreadsOverEveryDimOfAMeshAndOverFusedDims) {
  EXPECT_NO_THROW(check_on_threads({2, 2}));
  EXPECT_NO_THROW(check_on_threads({2, 3}));
}

RANK_ROLE(check_line) {
  testing::check_all(init_device_mesh("cpu", {current_world()->size()}));
  testing::say("all checks hold");
}

const testing::ProcessOptions kGloo = {.environment = {{"WEFT_SHARED_MEMORY", "0"}}};

TEST(Collectives, HoldOnTwoGlooProcesses) {
  expect_ok(testing::run_process_ranks("check_line", 2, kGloo));
}

TEST(Collectives, HoldOnThreeGlooProcesses) {
  expect_ok(testing::run_process_ranks("check_line", 3, kGloo));
}

TEST(Collectives, HoldOnTwoProcessesThatShareMemory) {
  expect_ok(testing::run_process_ranks("check_line", 2));
}

TEST(Collectives, HoldOnThreeProcessesThatShareMemory) {
  expect_ok(testing::run_process_ranks("check_line", 3));
}

RANK_ROLE(check_square) {
  testing::check_all(init_device_mesh("cpu", {2, 2}, {"dp", "tp"}));
  testing::say("all checks hold");
}

TEST(Collectives, HoldOnGlooProcessesOverFusedDims) {
  expect_ok(testing::run_process_ranks("check_square", 4, kGloo));
}

TEST(Collectives, HoldOnProcessesThatShareMemoryOverFusedDims) {
  expect_ok(testing::run_process_ranks("check_square", 4));
}

TEST(Collectives, StartAtOnceAndAreWaitedForWhenTheValueIsRead) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto ones = at::ones({2, 2});
    const std::vector<AsyncTensor> started = {
        all_gather(ones, mesh, 0, 0),
        reduce_scatter(ones, mesh, 0, 0, ReduceOp::Sum),
        all_reduce(ones, mesh, 0, ReduceOp::Sum),
        all_to_all(ones, mesh, 0, 0, 1),
        broadcast(ones, mesh, 0, 1),
        scatter(ones, mesh, 0, 0, 1),
    };
    auto sent = send(ones, mesh, 0, 1 - rank);
    const auto received = recv(ones, mesh, 0, 1 - rank);
    for (const auto& value : started) {
      EXPECT_FALSE(value.ready());
    }
    EXPECT_FALSE(sent.done() || received.ready());
    EXPECT_TRUE(at::equal(received.wait(), ones));
    EXPECT_TRUE(received.ready());
    for (auto value = started.rbegin(); value != started.rend(); ++value) {
      EXPECT_TRUE(value->wait().defined());
      EXPECT_TRUE(value->ready());
    }
  });
}

TEST(Collectives, OverAMeshDimOfOneRankAreReadyAtOnce) {
  const auto mesh = init_device_mesh("cpu", {1}, {"tp"});
  const auto ones = at::ones({2, 2});
  for (const auto& value :
       {all_gather(ones, mesh, 0, 0), reduce_scatter(ones, mesh, 0, 0, ReduceOp::Avg),
        all_reduce(ones, mesh, 0, ReduceOp::Product), all_to_all(ones, mesh, 0, 0, 1), broadcast(ones, mesh, 0, 0),
        scatter(ones, mesh, 0, 1, 0)}) {
    EXPECT_TRUE(value.ready());
    EXPECT_TRUE(at::equal(value.wait(), ones));
    EXPECT_FALSE(value.wait().is_same(ones)) << "the caller may change the input afterwards";
  }
}

TEST(Collectives, NeedSizesThatFitTheMembers) {
  const DeviceMesh mesh(make_fake_world(4, /*rank=*/1), c10::kCPU, {4}, {"tp"});
  const auto input = at::ones({3, 2});
  const auto gather = [&](std::vector<int64_t> sizes) {
    return error_text<c10::ValueError>([&] { all_gather(input, mesh, 0, 0, sizes); });
  };
  EXPECT_EQ(
      gather({3, 3, 3}),
      "[all_gather] sizes must be 4 numbers, that of member 1 being its own size 3, but got [3, 3, 3].");
  EXPECT_EQ(
      gather({3, 2, 3, 3}),
      "[all_gather] sizes must be 4 numbers, that of member 1 being its own size 3, but got [3, 2, 3, 3].");
  const std::vector<int64_t> sizes = {3, 3, 3, 3};
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { all_to_all(input, mesh, 0, 0, 1, sizes); }),
      "[all_to_all] sizes must be 4 numbers, that of member 1 being its own size 2, but got [3, 3, 3, 3].");
}

TEST(Collectives, NeedDimsAndMembersThatAreThere) {
  const DeviceMesh mesh(make_fake_world(4, /*rank=*/1), c10::kCPU, {4}, {"tp"});
  const auto input = at::ones({3, 2});
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { all_to_all(input, mesh, 0, 1, -1); }),
      "[all_to_all] split_dim and concat_dim must differ, but got 1 for both. To exchange chunks of one dim, view it "
      "as two dims.");
  EXPECT_EQ(
      error_text<c10::IndexError>([&] { broadcast(input, mesh, 0, 4); }),
      "[broadcast] a member of group tp (ranks 0,1,2,3) is required, in [0, 4), but got 4.");
  EXPECT_EQ(
      error_text<c10::IndexError>([&] { scatter(input, mesh, 0, 0, -1); }),
      "[scatter] a member of group tp (ranks 0,1,2,3) is required, in [0, 4), but got -1.");
  EXPECT_EQ(
      error_text<c10::IndexError>([&] { send(input, mesh, 0, 9); }),
      "[send] a member of group tp (ranks 0,1,2,3) is required, in [0, 4), but got 9.");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { send(input, mesh, 0, 1); }),
      "[send] the receiver must be another member, but got this one, 1.");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { recv(input, mesh, 0, 1); }),
      "[recv] the sender must be another member, but got this one, 1.");
  expect_contains(error_text<c10::IndexError>([&] { all_gather(input, mesh, 0, 2); }), "Dimension out of range");
}

} // namespace collectives_test

} // namespace weft
