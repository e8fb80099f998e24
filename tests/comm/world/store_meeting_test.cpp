#include "weft/comm/world/store_meeting.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <thread>

namespace weft {

namespace store_meeting_test {

using testing::error_text;
using testing::expect_contains;

using Words = std::vector<std::string>;

/// The texts that each of three ranks reads when every rank publishes its number and `suffix`.
std::vector<Words> meet(const c10::intrusive_ptr<c10d::Store>& store, const std::string& suffix) {
  std::vector<Words> heard(3);
  std::vector<std::thread> threads;
  for (int64_t member = 0; member < 3; ++member) {
    threads.emplace_back([&, member] {
      const StoreMeeting meeting{store, {4, 2, 7}, std::vector<int64_t>{4, 2, 7}[member], std::chrono::minutes(1)};
      meeting.arrive("group tp", std::to_string(meeting.rank) + suffix);
      heard[member] = meeting.words();
      meeting.leave();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  return heard;
}

TEST(StoreMeeting, EveryRankReadsAllTextsInTheOrderOfTheRanks) {
  for (const auto& words : meet(c10::make_intrusive<c10d::HashStore>(), "!")) {
    EXPECT_EQ(words, Words({"4!", "2!", "7!"}));
  }
}

TEST(StoreMeeting, LeavesNothingBehindSoThatTheRanksMayMeetAgain) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  meet(store, "first");
  EXPECT_EQ(store->getNumKeys(), 0);
  EXPECT_EQ(meet(store, "second")[0], Words({"4second", "2second", "7second"}));
}

TEST(StoreMeeting, ARankThatDoesNotComeIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const StoreMeeting meeting{store, {0, 1}, 1, std::chrono::milliseconds(50)};
  const auto text = error_text<c10::DistBackendError>([&] { meeting.arrive("group tp", "here"); });
  expect_contains(text, "[comm] group tp was not complete within 50 ms on rank 1: ranks 0 of 0,1 have not arrived (");
  expect_contains(text, "Every rank must make this mesh and use it.");
}

TEST(StoreMeeting, RanksAreJoinedByCommas) {
  EXPECT_EQ(join_ranks({}), "");
  EXPECT_EQ(join_ranks({3, 10, 2}), "3,10,2");
}

} // namespace store_meeting_test

} // namespace weft
