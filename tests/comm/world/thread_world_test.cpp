#include "weft/comm/world/thread_world.h"
#include "weft/comm/subject_scope.h"

#include "tests/support/error_text.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <thread>

namespace weft {

namespace thread_world_test {

using testing::check_same;
using testing::error_text;
using testing::expect_contains;

/// The error of every rank when each makes its own call; the test fails if a rank raises nothing.
std::vector<std::string> errors_of(int64_t size, const std::function<void(const DeviceMesh&, int64_t rank)>& call) {
  std::vector<std::string> texts(size);
  run_on_ranks(size, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {size}, {"tp"});
    texts[rank] = error_text([&] { call(mesh, rank); });
  });
  return texts;
}

void expect_all_contain(const std::vector<std::string>& texts, const std::vector<std::string>& texts_wanted) {
  for (const auto& text : texts) {
    for (const auto& wanted : texts_wanted) {
      expect_contains(text, wanted);
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

TEST(ThreadWorld, RanksThatGatherDifferentUnitsAllLearnBoth) {
  expect_all_contain(
      errors_of(
          2,
          [&](const DeviceMesh& mesh, int64_t rank) {
            const SubjectScope scope(make_subject(static_cast<uint32_t>(rank) + 1, 0xa5));
            all_gather(at::ones({4}), mesh, 0, 0).wait();
          }),
      {"rank 0 called all_gather f32[4] of unit 1 (lengths 00a5)",
       "rank 1 called all_gather f32[4] of unit 2 (lengths 00a5)"});
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
  // Chunks of 2, 2 and 1 from a rank that has 5 elements, of 2, 2 and 2 from the others: only the last member sees it.
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
  // The other ranks complete its contribution without waiting for it.
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {3}, {"tp"});
    const auto result = all_reduce(at::full({4}, rank + 1), mesh, 0, ReduceOp::Sum);
    barrier(mesh, 0);
    check_same(result.wait(), at::full({4}, 6), "a value read after a later call");
  });
}

TEST(ThreadWorld, TensorsOfARankThatHasWaitedAreHeldByNoOtherRank) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const DeviceMesh first(hub->communicator(0), c10::kCPU, {2}, {"tp"});
  const DeviceMesh second(hub->communicator(1), c10::kCPU, {2}, {"tp"});
  const auto mine = all_gather(at::zeros({4}), first, 0, 0);
  const auto theirs = all_gather(at::ones({4}), second, 0, 0);
  const auto gathered = mine.wait();
  EXPECT_EQ(gathered.storage().use_count(), 1) << "rank 1, which has not waited, holds the memory of rank 0";
  check_same(theirs.wait(), gathered, "what both have gathered");
}

/// Runs `first` and `second` on two threads of the rank, in its world.
void run_on_two_threads(const std::function<void()>& first, const std::function<void()>& second) {
  const auto world = current_world();
  std::exception_ptr error;
  std::thread other([&] {
    const WorldScope scope(world);
    try {
      second();
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    first();
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (error) {
    std::rethrow_exception(error);
  }
}

/// A few hundred calls, small and of two stages, with known results.
void reduce_often(const DeviceMesh& mesh, int64_t rank, double weight) {
  for (int64_t i = 0; i < 300; ++i) {
    const auto length = i % 10 == 0 ? 200'000 : 8;
    const auto sum = all_reduce(at::full({length}, weight * (rank + 1), at::kDouble), mesh, 0, ReduceOp::Sum);
    const auto gathered = all_gather(at::full({2}, weight * rank + i, at::kDouble), mesh, 0, 0).wait();
    check_same(sum.wait(), at::full({length}, weight * 6, at::kDouble), "the sum of three ranks");
    check_same(gathered.select(0, 4), at::scalar_tensor(weight * 2 + i, at::kDouble), "the value of the last rank");
  }
}

TEST(ThreadWorld, TwoThreadsOfEveryRankUseTwoMeshesOverTheSameRanks) {
  run_on_ranks(3, [](int64_t rank) {
    const auto run = [rank](const char* name, double weight) {
      return [=] { reduce_often(init_device_mesh("cpu", {3}, {name}), rank, weight); };
    };
    // Ranks begin with different meshes, so that their threads make them in different orders.
    if (rank == 0) {
      run_on_two_threads(run("dp", 1), run("tp", 100));
    } else {
      run_on_two_threads(run("tp", 100), run("dp", 1));
    }
  });
}

TEST(ThreadWorld, MeshesThatAreMadeAgainGoOnWhereTheyWere) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const auto worlds = {hub->communicator(0), hub->communicator(1)};
  const auto mesh_of = [&](int64_t rank) { return DeviceMesh(worlds.begin()[rank], c10::kCPU, {2}, {"tp"}); };
  const auto exchange = [&](const DeviceMesh& first, const DeviceMesh& second) {
    const auto mine = all_gather(at::zeros({1}), first, 0, 0);
    const auto theirs = all_gather(at::ones({1}), second, 0, 0);
    EXPECT_TRUE(at::equal(mine.wait(), theirs.wait()));
  };
  const auto held = mesh_of(1);
  exchange(mesh_of(0), held);
  EXPECT_EQ(hub->room_count(), 1) << "rank 1 holds the mesh";
  exchange(mesh_of(0), held);
  exchange(mesh_of(0), mesh_of(1));
}

TEST(ThreadWorld, MeshesThatAreGoneLeaveNothingBehind) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const auto worlds = {hub->communicator(0), hub->communicator(1)};
  for (int i = 0; i < 50; ++i) {
    const auto name = "d" + std::to_string(i % 3);
    const DeviceMesh first(worlds.begin()[0], c10::kCPU, {2}, {name});
    const DeviceMesh second(worlds.begin()[1], c10::kCPU, {2}, {name});
    const auto mine = all_gather(at::zeros({1}), first, 0, 0);
    const auto theirs = all_gather(at::ones({1}), second, 0, 0);
    EXPECT_TRUE(at::equal(mine.wait(), theirs.wait()));
    EXPECT_EQ(hub->room_count(), 1);
  }
  EXPECT_EQ(hub->room_count(), 0);
}

TEST(ThreadWorld, ACallWhileAnotherThreadIsInOneOfTheSameMeshIsAnErrorForBoth) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::seconds(60));
  const DeviceMesh mesh(hub->communicator(0), c10::kCPU, {2}, {"tp"});
  const DeviceMesh peer(hub->communicator(1), c10::kCPU, {2}, {"tp"});
  auto first = all_gather(at::ones({1}), mesh, 0, 0);
  std::string text;
  std::thread intruder([&] {
    // Until the first thread waits, the two threads make their calls one after the other, which is allowed.
    std::vector<Pending> messages;
    while (text.empty()) {
      try {
        messages.push_back(send(at::ones({1}), mesh, 0, 1));
        std::this_thread::yield();
      } catch (const c10::DistBackendError& error) {
        text = error.what_without_backtrace();
      }
    }
    const auto value = all_gather(at::ones({1}), peer, 0, 0);
    hub->leave(1, "it takes no messages");
    for (auto& message : messages) {
      error_text([&] { message.wait(); });
    }
  });
  const auto own = error_text<c10::DistBackendError>([&] { first.wait(); });
  intruder.join();
  EXPECT_EQ(
      text,
      "[send] one thread at a time may use group tp (ranks 0,1), but two threads have made calls at the same time. "
      "Make a "
      "mesh with other dim names for each thread.");
  expect_contains(own, "one thread at a time may use group tp (ranks 0,1)");
}

TEST(ThreadHub, ARankThatHasLeftIsAnErrorForThoseThatWaitForIt) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const auto stays = hub->communicator(0);
  const DeviceMesh mesh(stays, c10::kCPU, {2}, {"tp"});
  auto waits = all_gather(at::ones({1}), mesh, 0, 0);
  std::thread leaver([&] { hub->leave(1, "it has left"); });
  const auto text = error_text<c10::DistBackendError>([&] { waits.wait(); });
  leaver.join();
  EXPECT_EQ(
      text,
      "[all_gather f32[1]] call 0 of group tp (ranks 0,1) failed on rank 0: rank 1 does not participate: it has left. "
      "Every "
      "rank of the group must make this call.");
}

TEST(ThreadHub, WhatARankHasStartedStaysGoodAfterItHasLeft) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::minutes(1));
  const DeviceMesh first(hub->communicator(0), c10::kCPU, {2}, {"tp"});
  const DeviceMesh second(hub->communicator(1), c10::kCPU, {2}, {"tp"});
  const auto mine = all_gather(at::zeros({1}), first, 0, 0);
  const auto theirs = all_gather(at::ones({1}), second, 0, 0);
  hub->leave(1, "it has left");
  EXPECT_TRUE(at::equal(mine.wait(), at::tensor({0.0f, 1.0f})));
  EXPECT_TRUE(at::equal(theirs.wait(), at::tensor({0.0f, 1.0f})));
}

TEST(ThreadWorld, AMemberThatComesToACallThatWasGivenUpReadsNothing) {
  const auto hub = std::make_shared<ThreadHub>(2, std::chrono::milliseconds(50));
  const auto gather = [](const DeviceMesh& mesh, const at::Tensor& tensor) {
    return error_text([&] { all_gather(tensor, mesh, 0, 0).wait(); });
  };
  const auto early = DeviceMesh::parse("mesh(tp=2)", hub->communicator(1));
  const auto sent = at::ones({4});
  expect_contains(gather(early, sent), "not every rank arrived; missing: 0");
  sent.fill_(7);
  const auto late = DeviceMesh::parse("mesh(tp=2)", hub->communicator(0));
  const auto text = gather(late, at::ones({4}));
  expect_contains(
      text, "[all_gather f32[4]] group tp (ranks 0,1) cannot be used any more, because an earlier call failed: ");
  expect_contains(text, "missing: 0. Restart the ranks.");
  expect_contains(gather(early, sent), "cannot be used any more");
}

} // namespace thread_world_test

} // namespace weft
