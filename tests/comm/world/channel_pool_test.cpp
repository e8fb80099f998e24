#include "weft/comm/world/channel_pool.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <thread>

namespace weft {

namespace channel_pool_test {

using testing::error_text;
using testing::expect_contains;

using Channels = std::vector<std::shared_ptr<Channel>>;

GroupDescription group_of(const std::string& name, int64_t rank) {
  return {.label = name, .ranks = {0, 1}, .rank = rank, .device_type = c10::kCPU, .identity = name};
}

/// The pools of two ranks, which are connected by shared memory, as they are of one host.
struct ChannelPoolTest : ::testing::Test {
  c10::intrusive_ptr<c10d::HashStore> store = c10::make_intrusive<c10d::HashStore>();
  ChannelPool first{store, 0, std::chrono::seconds(30)};
  ChannelPool second{store, 1, std::chrono::seconds(30)};

  /// Both ranks ask for a group at the same time.
  Channels both(const std::string& name) {
    Channels channels(2);
    std::thread other([&] { channels[1] = second.channel(group_of(name, 1)); });
    channels[0] = first.channel(group_of(name, 0));
    other.join();
    return channels;
  }
};

TEST_F(ChannelPoolTest, GroupsThatAreHeldHaveAChannelEach) {
  const auto one = both("one");
  const auto two = both("two");
  EXPECT_NE(one[0], two[0]);
  EXPECT_EQ(first.channel(group_of("one", 0)), one[0]) << "asking again needs no other member";
  EXPECT_EQ(first.size(), 2);
}

TEST_F(ChannelPoolTest, AGroupTakesOverTheChannelOfAGroupThatIsNoLongerHeld) {
  for (int i = 0; i < 20; ++i) {
    const auto channels = both("mesh" + std::to_string(i));
    EXPECT_EQ(channels[0]->next_sequence(), i);
    EXPECT_EQ(channels[1]->next_sequence(), i);
  }
  EXPECT_EQ(first.size(), 1);
  EXPECT_EQ(second.size(), 1);
}

TEST_F(ChannelPoolTest, AChannelThatOneRankHoldsIsNotTakenOver) {
  auto held = both("held");
  held[0]->next_sequence();
  held[1]->next_sequence();
  held[0] = nullptr;
  const auto other = both("other");
  EXPECT_NE(other[1], held[1]);
  EXPECT_EQ(first.channel(group_of("held", 0))->next_sequence(), 1) << "it goes on where it was";
  EXPECT_EQ(first.size(), 2);
}

TEST_F(ChannelPoolTest, AChannelOnWhichARankIsBehindIsNotTakenOver) {
  {
    const auto channels = both("calls");
    channels[0]->next_sequence(); // the root of a broadcast may be done before the other members begin
  }
  {
    const auto channels = both("messages");
    channels[0]->next_message(Collective::Send, 1);
  }
  both("new");
  EXPECT_EQ(first.size(), 3);
  EXPECT_EQ(second.channel(group_of("calls", 1))->next_sequence(), 0);
  EXPECT_EQ(second.channel(group_of("messages", 1))->next_message(Collective::Recv, 0), 0);
  both("newer"); // now both ranks have made the same calls on all channels
  EXPECT_EQ(first.size(), 3);
}

TEST_F(ChannelPoolTest, TwoThreadsMakeGroupsOfTheSameRanksInDifferentOrders) {
  for (int round = 0; round < 5; ++round) {
    const auto name = std::to_string(round);
    std::vector<std::thread> threads;
    for (const auto& [pool, rank] : {std::pair(&first, 0), std::pair(&second, 1)}) {
      for (const std::string letter : {"a", "b"}) {
        threads.emplace_back([pool = pool, rank = rank, identity = letter + name] {
          pool->channel(group_of(identity, rank))->next_sequence();
        });
      }
    }
    for (auto& thread : threads) {
      thread.join();
    }
  }
  EXPECT_LE(first.size(), 10);
  EXPECT_EQ(first.size(), second.size());
}

TEST_F(ChannelPoolTest, WhatWasOfferedToAGroupThatWasNotMadeIsClosed) {
  ChannelPool hasty(store, 0, std::chrono::milliseconds(200));
  Channels channels(2);
  std::thread other([&] { channels[1] = second.channel(group_of("idle", 1)); });
  channels[0] = hasty.channel(group_of("idle", 0));
  other.join();
  channels[0] = nullptr;
  const auto text = error_text<c10::DistBackendError>([&] { hasty.channel(group_of("alone", 0)); });
  expect_contains(text, "[comm] group alone was not complete within 200 ms on rank 0: ranks 1 of 0,1 have not arrived");
  EXPECT_EQ(hasty.size(), 0) << "rank 1 may still come, and take the channel over";
}

/// A backend that is never used.
struct NamedBackend : c10d::Backend {
  NamedBackend() : Backend(0, 2) {}
  const std::string getBackendName() const override {
    return "named";
  }
};

TEST_F(ChannelPoolTest, AnAdoptedBackendServesItsGroupAndThoseOfItsLabelThatHaveNone) {
  const auto backend = [] { return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<NamedBackend>()); };
  const auto group = [](const std::string& label, const std::string& mesh) {
    auto result = group_of(label, 0);
    result.identity = label + " of " + mesh;
    return result;
  };
  const auto shared = backend();
  first.adopt(group("tp", "mesh"), shared);
  first.adopt(group("tp", "other"), backend());
  first.adopt(group("ep", "third"), shared);
  const auto channel = first.channel(group("tp", "mesh"));
  EXPECT_EQ(&dynamic_cast<BackendChannel&>(*channel).backend(), shared.get());
  EXPECT_EQ(first.channel(group("tp", "submesh")), channel);
  EXPECT_EQ(first.channel(group("ep", "third")), channel) << "one backend is one channel";
  EXPECT_NE(first.channel(group("tp", "other")), channel);
  EXPECT_EQ(first.size(), 0) << "nothing was connected";
}

} // namespace channel_pool_test

} // namespace weft
