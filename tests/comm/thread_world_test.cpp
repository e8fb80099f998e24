#include "weft/comm/thread_world.h"

#include "tests/support/error_text.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/current_world.h"
#include "weft/comm/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <thread>

namespace weft {

namespace thread_world_test {

using testing::check_same;
using testing::error_text;
using testing::expect_contains;

/// What every rank raises when each makes its own call; the test fails where one raises nothing.
std::vector<std::string> errors_of(int64_t size, const std::function<void(const DeviceMesh&, int64_t rank)>& call) {
  std::vector<std::string> texts(size);
  run_on_ranks(size, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {size}, {"tp"});
    texts[rank] = error_text([&] { call(mesh, rank); });
  });
  return texts;
}

void expect_all_contain(const std::vector<std::string>& texts, const std::vector<std::string>& parts) {
  for (const auto& text : texts) {
    for (const auto& part : parts) {
      expect_contains(text, part);
    }
  }
}

TEST(ThreadWorld, RanksThatCallDifferentCollectivesAllLearnBoth) {
  const auto texts = errors_of(3, [](const DeviceMesh& mesh, int64_t rank) {
    const auto ones = at::ones({4});
    (rank == 1 ? all_gather(ones, mesh, 0, 0) : all_reduce(ones, mesh, 0, ReduceOp::Sum)).wait();
  });
  expect_all_contain(
      texts,
      {"call 0 of group tp (ranks 0,1,2) failed on rank ", "all ranks must make the same call, but rank ",
       "all_gather f32[4]", "all_reduce(sum) f32[4]", "Look for a branch that depends on the rank."});
  expect_contains(texts[1], "[all_gather f32[4]]");
  expect_contains(texts[1], "rank 1 called all_gather f32[4]");
}

TEST(ThreadWorld, RanksThatDisagreeOnTheOpTheDtypeOrTheRootAllLearnBoth) {
  const auto ones = at::ones({4});
  expect_all_contain(
      errors_of(
          2,
          [&](const DeviceMesh& mesh, int64_t rank) {
            reduce_scatter(ones, mesh, 0, 0, rank == 0 ? ReduceOp::Sum : ReduceOp::Max).wait();
          }),
      {"group tp (ranks 0,1)", "rank 0 called reduce_scatter(sum) f32[2]", "rank 1 called reduce_scatter(max) f32[2]"});
  expect_all_contain(
      errors_of(
          2,
          [&](const DeviceMesh& mesh, int64_t rank) {
            all_gather(ones.to(rank == 0 ? at::kFloat : at::kInt), mesh, 0, 0).wait();
          }),
      {"group tp (ranks 0,1)", "rank 0 called all_gather f32[4]", "rank 1 called all_gather i32[4]"});
  expect_all_contain(
      errors_of(2, [&](const DeviceMesh& mesh, int64_t rank) { broadcast(ones, mesh, 0, rank).wait(); }),
      {"group tp (ranks 0,1)", "rank 0 called broadcast(root 0) f32[4]", "rank 1 called broadcast(root 1) f32[4]"});
}

TEST(ThreadWorld, AMessageOfAnotherDtypeIsAnErrorOnBothSides) {
  const auto ones = at::ones({4});
  expect_all_contain(
      errors_of(
          2,
          [&](const DeviceMesh& mesh, int64_t rank) {
            if (rank == 0) {
              send(ones, mesh, 0, 1).wait();
            } else {
              recv(ones.to(at::kLong), mesh, 0, 0).wait();
            }
          }),
      {"group tp (ranks 0,1)", "rank 0 called send(to member 1) f32[4]", "rank 1 called recv(from member 0) i64[4]"});
}

TEST(ThreadWorld, ShapesThatDisagreeAreAnErrorOnEveryRank) {
  for (const int64_t length : {4, 300'000}) {
    const auto texts = errors_of(3, [&](const DeviceMesh& mesh, int64_t rank) {
      all_reduce(at::ones({rank == 2 ? length + 3 : length}), mesh, 0, ReduceOp::Sum).wait();
    });
    expect_all_contain(texts, {"[all_reduce(sum) f32[", "expects [", "group tp (ranks 0,1,2)"});
  }
  expect_all_contain(
      errors_of(2, [](const DeviceMesh& mesh, int64_t rank) { all_gather(at::ones({4 + rank}), mesh, 0, 0).wait(); }),
      {"expects [", "from rank", "in group tp (ranks 0,1)", "The ranks must agree on the shapes."});
}

TEST(ThreadWorld, AShapeThatIsWrongForOneMemberIsAnErrorOnAll) {
  // Pieces of 2, 2 and 1 from a rank that has 5, of 2, 2 and 2 from the others: only the last member sees it.
  const auto texts = errors_of(3, [](const DeviceMesh& mesh, int64_t rank) {
    reduce_scatter(at::ones({rank == 0 ? 5 : 6}), mesh, 0, 0, ReduceOp::Sum).wait();
  });
  expect_contains(texts[2], "rank 2 expects [2] from rank 0 in group tp (ranks 0,1,2), but got [1].");
  for (const int64_t rank : {0, 1}) {
    expect_contains(texts[rank], "call 0 of group tp (ranks 0,1,2) failed on rank " + std::to_string(rank));
    expect_contains(texts[rank], "it failed on rank 2: [reduce_scatter(sum) f32[2]] rank 2 expects [2] from rank 0");
  }
}

TEST(ThreadWorld, ARankThatHasStartedACallNeedNotWaitForIt) {
  // The others finish its part; it is neither asked nor waited for.
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {3}, {"tp"});
    const auto result = all_reduce(at::full({4}, rank + 1), mesh, 0, ReduceOp::Sum);
    barrier(mesh, 0);
    check_same(result.wait(), at::full({4}, 6), "a value read after a later call");
  });
}

TEST(ThreadWorld, GroupsOfTheSameRanksUnderTwoNamesCountTheirCallsTogether) {
  run_on_ranks(2, [](int64_t rank) {
    const auto one = init_device_mesh("cpu", {2}, {"dp"});
    const auto other = init_device_mesh("cpu", {2}, {"tp"});
    const auto text = error_text([&] {
      (rank == 0 ? all_gather(at::ones({2}), one, 0, 0) : all_reduce(at::ones({2}), other, 0, ReduceOp::Sum)).wait();
    });
    expect_contains(text, "all ranks must make the same call");
  });
}

TEST(ThreadHub, ARankThatHasLeftIsAnErrorForThoseThatWaitForIt) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const auto stays = hub->communicator(0);
  const DeviceMesh mesh(stays, c10::kCPU, {2}, {"tp"});
  auto waits = all_gather(at::ones({1}), mesh, 0, 0);
  std::thread leaver([&] { hub->leave(1, "it went home"); });
  const auto text = error_text<c10::DistBackendError>([&] { waits.wait(); });
  leaver.join();
  EXPECT_EQ(
      text,
      "[all_gather f32[1]] call 0 of group tp (ranks 0,1) failed on rank 0: rank 1 takes no part: it went home. Every "
      "rank of the group must make this call.");
}

TEST(ThreadHub, WhatARankHasStartedStaysGoodAfterItHasLeft) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const DeviceMesh first(hub->communicator(0), c10::kCPU, {2}, {"tp"});
  const DeviceMesh second(hub->communicator(1), c10::kCPU, {2}, {"tp"});
  const auto mine = all_gather(at::zeros({1}), first, 0, 0);
  const auto theirs = all_gather(at::ones({1}), second, 0, 0);
  hub->leave(1, "it went home");
  EXPECT_TRUE(at::equal(mine.wait(), at::tensor({0.0f, 1.0f})));
  EXPECT_TRUE(at::equal(theirs.wait(), at::tensor({0.0f, 1.0f})));
}

} // namespace thread_world_test

} // namespace weft
