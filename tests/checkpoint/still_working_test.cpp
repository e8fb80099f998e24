#include "weft/checkpoint/still_working.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <atomic>

namespace weft {

namespace still_working_test {

TEST(StillWorking, RanksWaitLongerThanTheTimeoutForOneThatWorks) {
  std::atomic<int> done = 0;
  run_on_ranks(
      2,
      [&](int64_t rank) {
        const RankTexts texts(init_device_mesh("cpu", {2}, {"texts"}));
        StillWorking working(texts);
        if (rank == 1) {
          std::this_thread::sleep_for(3 * texts.timeout());
        }
        ++done;
        working.wait_for_all();
        EXPECT_EQ(done, 2);
        EXPECT_EQ(texts.all_gather("a").size(), 2u); // the texts can be used again
      },
      {.timeout = std::chrono::milliseconds(1000)});
}

TEST(StillWorking, ARankThatIsGoneIsAnErrorWithinTheTimeout) {
  run_on_ranks(
      2,
      [&](int64_t rank) {
        const RankTexts texts(init_device_mesh("cpu", {2}, {"texts"}));
        if (rank == 1) {
          return;
        }
        StillWorking working(texts);
        EXPECT_FALSE(testing::error_text([&] { working.wait_for_all(); }).empty());
      },
      {.timeout = std::chrono::milliseconds(200)});
}

TEST(StillWorking, OfOneRankNeedsNoOther) {
  const RankTexts texts{DeviceMesh()};
  StillWorking working(texts);
  working.wait_for_all();
  EXPECT_EQ(texts.size(), 1);
}

} // namespace still_working_test

} // namespace weft
