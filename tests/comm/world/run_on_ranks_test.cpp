#include "weft/comm/world/run_on_ranks.h"

#include "tests/support/error_text.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

namespace weft {

namespace run_on_ranks_test {

using testing::error_text;
using testing::expect_contains;

void reduce_ones() {
  const auto mesh = init_device_mesh("cpu", {current_world()->size()}, {"dp"});
  all_reduce(at::ones({4}), mesh, 0, ReduceOp::Sum).wait();
}

TEST(RunOnRanks, GivesEveryRankItsOwnWorld) {
  std::atomic<int64_t> seen = 0;
  run_on_ranks(5, [&](int64_t rank) {
    EXPECT_EQ(current_world()->rank(), rank);
    EXPECT_EQ(current_world()->size(), 5);
    seen += 1 << rank;
  });
  EXPECT_EQ(seen, 0b11111);
}

TEST(RunOnRanks, RethrowsAnErrorWithItsTypeAndRankAndReleasesTheOthers) {
  std::atomic<int64_t> released = 0;
  const auto text = error_text<c10::ValueError>([&] {
    run_on_ranks(4, [&](int64_t rank) {
      TORCH_CHECK_VALUE(rank != 2, "the input is wrong");
      try {
        reduce_ones();
      } catch (const c10::DistBackendError& error) {
        expect_contains(
            error.what(),
            "of group dp (ranks 0,1,2,3) failed on rank " + std::to_string(rank) +
                ": rank 2 does not participate: it failed with: the input is wrong. Every rank of the group must make "
                "this "
                "call.");
        ++released;
        throw;
      }
    });
  });
  expect_contains(text, "the input is wrong");
  expect_contains(text, "on rank 2");
  EXPECT_EQ(released, 3);
}

TEST(RunOnRanks, NamesTheRankOfAnErrorThatIsNotTorchs) {
  EXPECT_EQ(
      error_text<std::runtime_error>([] {
        run_on_ranks(3, [](int64_t rank) {
          if (rank == 1) {
            throw std::out_of_range("no such row");
          }
          reduce_ones();
        });
      }),
      "no such row (on rank 1)");
}

TEST(RunOnRanks, PassesOnWhatIsNoException) {
  int caught = 0;
  try {
    run_on_ranks(2, [](int64_t rank) {
      if (rank == 0) {
        throw 42; // NOLINT
      }
      reduce_ones();
    });
  } catch (int value) {
    caught = value;
  }
  EXPECT_EQ(caught, 42);
}

TEST(RunOnRanks, AnErrorIsNotHeldUpByTransfersUnderWay) {
  const auto text = error_text<c10::IndexError>([] {
    run_on_ranks(3, [](int64_t rank) {
      const auto mesh = init_device_mesh("cpu", {3}, {"dp"});
      const auto large = all_reduce(at::ones({100'000}), mesh, 0, ReduceOp::Sum);
      const auto small = all_gather(at::ones({2}), mesh, 0, 0);
      TORCH_CHECK_INDEX(rank != 1, "row 9 of 3");
      large.wait();
    });
  });
  expect_contains(text, "row 9 of 3");
  expect_contains(text, "on rank 1");
}

TEST(RunOnRanks, ARankThatReturnsEarlyIsAnErrorOnThoseThatWaitForIt) {
  const auto text = error_text<c10::DistBackendError>([] {
    run_on_ranks(3, [](int64_t rank) {
      if (rank != 0) {
        reduce_ones();
      }
    });
  });
  expect_contains(text, "of group dp (ranks 0,1,2) failed on rank");
  expect_contains(text, "rank 0 does not participate: it has returned");
}

TEST(RunOnRanks, ARankThatNeverArrivesIsAnErrorAfterTheTimeout) {
  std::mutex mutex;
  std::condition_variable changed;
  int failed = 0;
  run_on_ranks(
      3,
      [&](int64_t rank) {
        std::unique_lock lock(mutex);
        if (rank == 1) {
          changed.wait(lock, [&] { return failed == 2; });
          return;
        }
        lock.unlock();
        const auto text = error_text<c10::DistBackendError>(reduce_ones);
        expect_contains(
            text,
            "[all_reduce(sum) f32[4]] call 0 of group dp (ranks 0,1,2) failed on rank " + std::to_string(rank) +
                ": within 50 ms not every rank arrived; missing: 1. Every rank of the group must make this call.");
        lock.lock();
        ++failed;
        changed.notify_all();
      },
      {.timeout = std::chrono::milliseconds(50)});
  EXPECT_EQ(failed, 2);
}

TEST(RunOnRanks, NeedsARank) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { run_on_ranks(0, [](int64_t) {}); }),
      "[run_on_ranks] at least one rank is required, but got 0.");
}

TEST(RunOnRanks, RanksRunBackwardThemselves) {
  run_on_ranks(2, [](int64_t) { EXPECT_FALSE(c10::AutogradState::get_tls_state().get_multithreading_enabled()); });
  EXPECT_TRUE(c10::AutogradState::get_tls_state().get_multithreading_enabled());
}

TEST(RunOnRanks, LeavesTheCallersNumberOfThreadsAsItWas) {
  const auto before = at::get_num_threads();
  run_on_ranks(3, [](int64_t) {});
  EXPECT_EQ(at::get_num_threads(), before);
}

TEST(RunOnRanks, MayBeNested) {
  run_on_ranks(2, [](int64_t outer) {
    run_on_ranks(2, [](int64_t) { reduce_ones(); });
    EXPECT_EQ(current_world()->rank(), outer);
    reduce_ones();
  });
}

} // namespace run_on_ranks_test

} // namespace weft
