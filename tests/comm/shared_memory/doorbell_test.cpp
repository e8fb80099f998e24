#include "weft/comm/shared_memory/doorbell.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {

namespace doorbell_test {

using Clock = std::chrono::steady_clock;

constexpr auto kLong = std::chrono::seconds(60);

bool never() {
  return false;
}

TEST(Doorbell, ARingSinceTheLastLookEndsTheWaitAtOnce) {
  Doorbell bell{};
  SpinTime spin_time;
  const auto seen = bell.rings();
  bell.ring();
  EXPECT_TRUE(bell.wait(seen, Clock::now() + kLong, spin_time, never));
}

TEST(Doorbell, ARingWakesAThreadThatSleeps) {
  Doorbell bell{};
  SpinTime spin_time;
  for (int i = 0; i < 20; ++i) {
    const auto seen = bell.rings();
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
      bell.ring();
    });
    while (bell.rings() == seen) {
      bell.wait(seen, Clock::now() + kLong, spin_time, never); // a signal may end it early
    }
    other.join();
  }
}

TEST(Doorbell, WithoutARingTheWaitEndsWithTheTime) {
  Doorbell bell{};
  SpinTime spin_time;
  EXPECT_FALSE(bell.wait(bell.rings(), Clock::now() + std::chrono::milliseconds(20), spin_time, never));
}

TEST(Doorbell, WhatHappensWithoutARingIsSeenBeforeTheThreadSleeps) {
  Doorbell bell{};
  SpinTime spin_time;
  EXPECT_TRUE(bell.wait(bell.rings(), Clock::now() + kLong, spin_time, [] { return true; }));
}

TEST(Doorbell, OnlyThreadsThatSleepHearARingForSleepers) {
  Doorbell bell{};
  SpinTime spin_time;
  bell.ring_sleepers();
  EXPECT_EQ(bell.rings(), 0);
  std::atomic<bool> happened = false;
  std::thread other([&] {
    happened = true;
    bell.ring_sleepers();
  });
  while (!happened) {
    bell.wait(bell.rings(), Clock::now() + kLong, spin_time, [&] { return happened.load(); });
  }
  other.join();
}

TEST(SpinTime, IsShorterWhereSpinningIsInVainAndTriedAgainOnceInAWhile) {
  SpinTime spin_time;
  const auto first = spin_time.next();
  std::chrono::nanoseconds shortest = first;
  bool grew = false;
  for (int i = 0; i < 100; ++i) {
    const auto now = spin_time.next();
    grew |= now > shortest;
    shortest = std::min(shortest, now);
    spin_time.failed();
  }
  EXPECT_LT(shortest, first / 10);
  EXPECT_TRUE(grew);
  for (int i = 0; i < 10; ++i) {
    spin_time.succeeded();
  }
  EXPECT_EQ(spin_time.next(), first);
}

} // namespace doorbell_test

} // namespace weft
