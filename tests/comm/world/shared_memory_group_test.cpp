#include "weft/comm/world/shared_memory_group.h"

#include "tests/support/forbidden_call.h"
#include "tests/support/group_faults.h"
#include "tests/support/launch_store.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/c10d_world.h"
#include "weft/comm/world/current_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <thread>

#include <sys/syscall.h>

namespace weft {

namespace shared_memory_group_test {

const testing::Environment kEnvironment = {};
/// Of ranks that may not read each other's memory, so that tensors of any size are copied into shared memory.
const testing::Environment kCopiesAlone = {{testing::kForbiddenCallVariable, std::to_string(SYS_process_vm_readv)}};
/// Of ranks that may not share memory.
const testing::Environment kSharesNothing = {{testing::kForbiddenCallVariable, std::to_string(SYS_memfd_create)}};

TEST(SharedMemoryGroup, ARankKilledInsideACollectiveIsAnErrorOnTheOthers) {
  testing::check_killed_rank(kEnvironment);
}

TEST(SharedMemoryGroup, AStoppedRankIsAnErrorOnTheOthersWithinTheTimeout) {
  testing::check_stopped_rank(kEnvironment);
}

TEST(SharedMemoryGroup, ARankThatExitsEarlyIsAnErrorOnTheOthers) {
  testing::check_rank_that_leaves(kEnvironment);
}

TEST(SharedMemoryGroup, AnUncaughtErrorEndsTheRankAtOnceAndTheOthersFollow) {
  testing::check_rank_that_throws(kEnvironment);
}

TEST(SharedMemoryGroup, RanksThatMakeDifferentCallsAllGetAnErrorThatNamesTheirs) {
  testing::check_different_calls(kEnvironment);
}

TEST(SharedMemoryGroup, ARankKilledAmongCopiesIsAnErrorOnTheOthers) {
  testing::check_killed_rank(kCopiesAlone);
}

/// Sizes at which receivers read from the sender's own memory if they may, also into tensors that are not contiguous.
void exchange_large_tensors() {
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  const auto rank = mesh.world()->rank();
  const auto of_rank = [](int64_t r, at::ScalarType dtype) {
    return at::arange(3000 * 1501).remainder(97 + r).view({3000, 1501}).to(dtype);
  };
  const auto check = [](const char* what, const AsyncTensor& got, const at::Tensor& expected) {
    TORCH_CHECK(at::equal(got.wait(), expected), what, " gives other values");
  };
  const auto one = of_rank(0, at::kFloat);
  const auto two = of_rank(1, at::kFloat);
  const auto own = rank == 0 ? one : two;
  check("all_reduce", all_reduce(own, mesh, 0, ReduceOp::Sum), one + two);
  check("all_gather", all_gather(own, mesh, 0, 1), at::cat({one, two}, 1));
  check("reduce_scatter", reduce_scatter(own, mesh, 0, 0, ReduceOp::Max), at::maximum(one, two).chunk(2, 0)[rank]);
  check("broadcast", broadcast(own, mesh, 0, 1), two);
  check("all_to_all", all_to_all(own, mesh, 0, 0, 1), at::cat({one.chunk(2, 0)[rank], two.chunk(2, 0)[rank]}, 1));
  check("all_reduce of a view", all_reduce(own.t(), mesh, 0, ReduceOp::Sum), (one + two).t());
  const auto narrow = of_rank(rank, at::kDouble).to(at::kBFloat16);
  check(
      "all_reduce bf16", all_reduce(at::cat({narrow, narrow}), mesh, 0, ReduceOp::Avg),
      ((at::cat({of_rank(0, at::kBFloat16), of_rank(0, at::kBFloat16)}).to(at::kFloat) +
        at::cat({of_rank(1, at::kBFloat16), of_rank(1, at::kBFloat16)}).to(at::kFloat)) /
       2)
          .to(at::kBFloat16));
  testing::say("all values are right");
  const auto* arena = SharedArena::own();
  testing::say(
      arena == nullptr                                               ? "nothing was shared"
          : arena->used_range() < static_cast<int64_t>(own.nbytes()) ? "only small tensors were copied"
                                                                     : "tensors of any size were copied");
  barrier(mesh, 0);
}

RANK_ROLE(exchanges_large_tensors) {
  exchange_large_tensors();
}

RANK_ROLE(exchanges_large_tensors_where_rank_1_may_not_read) {
  if (read_launch_environment()->rank == 1) {
    testing::forbid_call(SYS_process_vm_readv);
  }
  exchange_large_tensors();
}

void expect_large_exchanges(const char* role, const testing::Environment& environment, const char* way) {
  const auto ranks = testing::run_process_ranks(role, 2, {.environment = environment});
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank.has_line("all values are right") && rank.has_line(way)) << describe(ranks);
  }
}

TEST(SharedMemoryGroup, LargeTensorsAreReadFromTheirSendersMemoryOrCopiedWhereThatIsForbidden) {
  const auto* role = "exchanges_large_tensors";
  expect_large_exchanges(role, kCopiesAlone, "tensors of any size were copied");
  expect_large_exchanges(role, kSharesNothing, "nothing was shared");
  const auto* one_may_not = "exchanges_large_tensors_where_rank_1_may_not_read";
  expect_large_exchanges(one_may_not, kEnvironment, "tensors of any size were copied");
  const auto ranks = testing::run_process_ranks(role, 2);
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank.has_line("all values are right")) << describe(ranks); // a rank that waits long copies, too
  }
}

/// One rank's thread is stuck elsewhere, while the other rank waits for a call that both have started.
RANK_ROLE(waits_while_the_other_is_elsewhere) {
  const auto rank = read_launch_environment()->rank;
  const auto store = testing::launch_store();
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>("world", store);
  const DeviceMesh mesh(make_c10d_world(own_store, rank, 2, default_timeout()), c10::kCPU, {2}, {"tp"});
  const auto input = at::full({3'000'000}, rank);
  auto sum = all_reduce(input.narrow(0, 0, 100'000), mesh, 0, ReduceOp::Sum);
  auto gathered = all_gather(input, mesh, 0, 0);
  if (rank == 1) {
    testing::meet_in_store(*store, "elsewhere", rank, 2);
  }
  TORCH_CHECK(at::equal(gathered.wait(), at::arange(2).repeat_interleave(3'000'000)));
  input.fill_(77); // allowed as soon as the call is done here
  if (rank == 0) {
    testing::meet_in_store(*store, "elsewhere", rank, 2);
  }
  TORCH_CHECK(at::equal(sum.wait(), at::ones({100'000}, at::kLong)));
  testing::say("all values are right");
}

TEST(SharedMemoryGroup, ARankWaitsForNoOtherThatHasStartedTheCallAndIsStuckElsewhere) {
  const auto ranks = testing::run_process_ranks("waits_while_the_other_is_elsewhere", 2);
  for (const auto& rank : ranks) {
    EXPECT_TRUE(rank.has_line("all values are right")) << describe(ranks);
  }
}

/// A rank ends as soon as its own calls are done.
RANK_ROLE(ends_before_the_other_has_read) {
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  const auto rank = mesh.world()->rank();
  barrier(mesh, 0);
  std::vector<AsyncTensor> received;
  for (const int64_t length : {5, 3'000'000}) {
    if (rank == 1) {
      send(at::full({length}, 3), mesh, 0, 0).wait();
    } else {
      received.push_back(recv(at::empty({length}, at::kLong), mesh, 0, 1));
    }
  }
  if (rank == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500)); // rank 1 has most likely ended; it must not matter
    for (const auto& tensor : received) {
      TORCH_CHECK(at::equal(tensor.wait(), at::full_like(tensor.wait(), 3)));
    }
    testing::say("all values are right");
  }
}

TEST(SharedMemoryGroup, WhatARankHasSentArrivesAlthoughItHasEnded) {
  const auto ranks = testing::run_process_ranks("ends_before_the_other_has_read", 2);
  EXPECT_TRUE(ranks[0].has_line("all values are right")) << describe(ranks);
}

} // namespace shared_memory_group_test

} // namespace weft
