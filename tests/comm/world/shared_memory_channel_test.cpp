#include "weft/comm/world/shared_memory_channel.h"

#include "tests/support/error_text.h"
#include "weft/comm/communicator.h"
#include "weft/comm/subject_scope.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/shared_memory_meeting.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <thread>

namespace weft {

namespace shared_memory_channel_test {

using testing::error_text;

constexpr int64_t kLarge = 2'500'000; // not copied when it is sent
constexpr bool kLooks = true;

Call call_of(uint64_t sequence) {
  return {.collective = Collective::AllGather, .dtype = c10::kFloat, .sizes = {4}, .sequence = sequence};
}

/// The channels of two members in one process.
struct SharedMemoryChannelTest : ::testing::Test {
  std::shared_ptr<SharedMemoryChannel> first;
  std::shared_ptr<SharedMemoryChannel> second;

  SharedMemoryChannelTest() {
    connect(std::chrono::milliseconds(300));
  }
  void connect(std::chrono::milliseconds timeout) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::thread other([&] { second = connect_by_shared_memory(store, {0, 1}, 1, timeout); });
    first = connect_by_shared_memory(store, {0, 1}, 0, timeout);
    other.join();
  }
  /// Posts a tensor to the second member.
  std::shared_ptr<SharedMemoryChannel::Sending> post(const Call& call, const at::Tensor& tensor) {
    auto sending = first->prepare(tensor);
    first->post(call, *sending, 1);
    return sending;
  }
  void send(const Call& call, const at::Tensor& tensor) {
    first->settle(*post(call, tensor));
  }
  /// What the second member receives.
  at::Tensor receive(const Call& call, int64_t length) {
    auto tensor = at::empty({length});
    const auto arrival = second->receive(call, 0, tensor.nbytes(), kLooks);
    TORCH_CHECK(arrival.has_value(), "nothing has come");
    arrival->read(tensor.mutable_data_ptr(), 0, tensor.nbytes());
    arrival->finish();
    return tensor;
  }
};

TEST_F(SharedMemoryChannelTest, ASentTensorMayBeChangedAtOnceWhenAndWhereverItIsRead) {
  for (const int64_t length : {int64_t{4}, kLarge}) {
    const auto tensor = at::ones({length});
    send(call_of(length), tensor);
    tensor.fill_(2);
    EXPECT_TRUE(at::equal(receive(call_of(length), length), at::ones({length})));
  }
}

TEST_F(SharedMemoryChannelTest, ALargeTensorIsReadFromWhereItIs) {
  const auto sending = post(call_of(0), at::ones({kLarge}));
  const auto arrival = second->receive(call_of(0), 0, kLarge * sizeof(float), kLooks);
  ASSERT_TRUE(arrival.has_value());
  EXPECT_EQ(arrival->mapped(), nullptr);
  float value = 0;
  arrival->read(&value, 4 * (kLarge - 1), 4);
  EXPECT_EQ(value, 1);
  std::thread reader([&] { arrival->finish(); });
  first->settle(*sending);
  reader.join();
}

TEST_F(SharedMemoryChannelTest, ATensorThatIsNotContiguousIsSentWithItsValues) {
  const auto matrix = at::arange(12, at::kFloat).view({3, 4});
  send(call_of(0), matrix.t());
  EXPECT_TRUE(at::equal(receive(call_of(0), 12), matrix.t().reshape({-1})));
}

TEST_F(SharedMemoryChannelTest, ATensorThatIsReleasedUnsettledIsAnErrorOfItsReceivers) {
  post(call_of(0), at::ones({kLarge}));
  EXPECT_EQ(error_text<std::runtime_error>([&] { receive(call_of(0), kLarge); }), "it has given up the call");
  auto sending = post(call_of(1), at::ones({kLarge}));
  const auto arrival = second->receive(call_of(1), 0, kLarge * sizeof(float), kLooks);
  sending = nullptr;
  EXPECT_EQ(error_text<std::runtime_error>([&] { arrival->finish(); }), "it has given up the call");
}

TEST_F(SharedMemoryChannelTest, AnotherCallOfThatNumberIsAnErrorThatNamesIt) {
  auto other = call_of(0);
  other.collective = Collective::AllReduce;
  post(other, at::ones({4}));
  EXPECT_EQ(
      error_text<std::runtime_error>([&] { receive(call_of(0), 4); }), "it has called all_reduce(sum) f32[4] instead");
  post(call_of(1), at::ones({4}));
  EXPECT_EQ(
      error_text<std::runtime_error>([&] { receive(call_of(1), 5); }),
      "it has sent 16 bytes by all_gather f32[4], but 20 are expected");
  auto of_unit = call_of(2);
  of_unit.subject = make_subject(5, 0xa5);
  post(of_unit, at::ones({4}));
  EXPECT_EQ(
      error_text<std::runtime_error>([&] { receive(call_of(2), 4); }),
      "it has called all_gather f32[4] of unit 5 (lengths 00a5) instead");
}

TEST_F(SharedMemoryChannelTest, AReceiverIsToldWhenATensorThatItWaitsForHasMoved) {
  const auto tensor = at::ones({kLarge});
  auto sending = post(call_of(0), tensor);
  const auto seen = second->rings();
  first->settle(*sending);
  EXPECT_GT(second->rings(), seen) << "a receiver that looked during the move would sleep";
  EXPECT_TRUE(at::equal(receive(call_of(0), kLarge), at::ones({kLarge})));
}

TEST_F(SharedMemoryChannelTest, WhatDoesNotComeEndsTheWaitAndIsDescribed) {
  EXPECT_FALSE(second->wait([&](bool looks) { return second->receive(call_of(3), 0, 16, looks).has_value(); }));
  EXPECT_EQ(second->describe_missing(0), "nothing has arrived within 300 ms");
  post(call_of(2), at::ones({4}));
  EXPECT_EQ(second->receive(call_of(3), 0, 16, kLooks), std::nullopt);
  EXPECT_EQ(second->describe_missing(0), "nothing has arrived within 300 ms but its call 2, all_gather f32[4]");
}

TEST_F(SharedMemoryChannelTest, TheOthersLearnOfAFailureAtOnce) {
  const auto world = make_fake_world(2, 0);
  const auto group = world->group(DeviceMesh(world, c10::kCPU, {2}, {"tp"}), 0);
  connect(std::chrono::minutes(1));
  post(call_of(0), at::ones({4}));
  std::thread other([&] {
    const auto text = error_text<std::runtime_error>(
        [&] { second->wait([&](bool looks) { return second->receive(call_of(1), 0, 16, looks).has_value(); }); });
    EXPECT_EQ(text, "it has given up, because the link is down");
  });
  EXPECT_THROW(first->fail(*group, call_of(1), "the link is down"), c10::DistBackendError);
  other.join();
  EXPECT_TRUE(at::equal(receive(call_of(0), 4), at::ones({4}))) << "what was sent before still counts";
  EXPECT_FALSE(first->wait([](bool) { return false; })) << "at once";
}

TEST_F(SharedMemoryChannelTest, ASenderIsNotAheadOfItsReceiversByAnyNumberOfBytes) {
  const auto tensor = at::zeros({32 << 20});
  send(call_of(0), tensor);
  send(call_of(1), tensor);
  EXPECT_EQ(error_text<std::runtime_error>([&] { send(call_of(2), tensor); }), "not all members have read the tensor");
}

TEST_F(SharedMemoryChannelTest, WhatWasSentIsThereAlthoughTheSenderHasReleasedTheChannel) {
  send(call_of(0), at::ones({4}));
  first = nullptr;
  std::vector<std::shared_ptr<SharedBlock>> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(SharedArena::own()->take_zeroed(16));
  }
  EXPECT_TRUE(at::equal(receive(call_of(0), 4), at::ones({4})));
}

TEST_F(SharedMemoryChannelTest, ManyChannelsOneAfterTheOtherTakeTheSameMemory) {
  connect(std::chrono::minutes(1));
  const auto before = SharedArena::own()->used_range();
  for (int i = 0; i < 30; ++i) {
    connect(std::chrono::minutes(1));
  }
  EXPECT_LE(SharedArena::own()->used_range(), before + 4 * MemberMemory::bytes_for(2));
}

} // namespace shared_memory_channel_test

} // namespace weft
