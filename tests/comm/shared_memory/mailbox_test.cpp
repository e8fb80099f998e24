#include "weft/comm/shared_memory/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {

namespace mailbox_test {

Call call_of(uint64_t sequence, Collective collective = Collective::AllGather) {
  return {.collective = collective, .dtype = c10::kFloat, .sizes = {4, 2}, .sequence = sequence};
}

struct MailboxTest : ::testing::Test {
  std::unique_ptr<PairMailbox> memory = std::make_unique<PairMailbox>();
  Outbox outbox{memory.get()};
  Inbox inbox{memory.get()};

  Outbox::Ticket post(const Call& call, uint64_t place) {
    return outbox.post(CallNumbers::of(call), {.is_copy = false, .place = place, .bytes = 32}, nullptr).value();
  }
  /// The place of the message of a call, which is read.
  uint64_t read(const Call& call) {
    auto* const slot = inbox.take(call);
    if (slot == nullptr) {
      return 0;
    }
    const auto place = slot->place;
    EXPECT_TRUE(finish_reading(*slot));
    return place;
  }
};

TEST_F(MailboxTest, MessagesAreFoundByTheNumberOfTheirCall) {
  auto second_stage = call_of(7);
  second_stage.stage = 1;
  post(call_of(7), 100);
  post(call_of(8), 200);
  post(second_stage, 300);
  post(call_of(7, Collective::Send), 400);
  EXPECT_EQ(read(call_of(9)), 0);
  EXPECT_EQ(read(call_of(7, Collective::Recv)), 400) << "messages have numbers of their own";
  EXPECT_EQ(read(second_stage), 300);
  EXPECT_EQ(read(call_of(8)), 200);
  EXPECT_EQ(read(call_of(7)), 100);
  EXPECT_EQ(read(call_of(7)), 0) << "it was taken";
}

TEST_F(MailboxTest, TheReaderSeesTheCallOfTheSender) {
  Call sent{
      .collective = Collective::AllReduce,
      .op = ReduceOp::Max,
      .root = 3,
      .dtype = c10::kBFloat16,
      .sizes = {1, 2, 3},
      .sequence = 41,
      .stage = 1};
  EXPECT_EQ(CallNumbers::of(sent).call().to_string(), "all_reduce(max) bf16[1,2,3]");
  EXPECT_TRUE(CallNumbers::of(sent).call().matches(sent));
  sent.dtype = c10::ScalarType::Undefined;
  EXPECT_FALSE(CallNumbers::of(sent).call().has_tensor());
  EXPECT_FALSE(inbox.first_listed().has_value());
  post(call_of(2), 100);
  post(call_of(3), 200);
  inbox.take(call_of(9));
  EXPECT_EQ(inbox.first_listed()->sequence, 2);
}

TEST_F(MailboxTest, ASenderKnowsWhatWasReadAndUsesItsSlotAgain) {
  const auto ticket = post(call_of(0), 100);
  EXPECT_FALSE(outbox.is_read(ticket));
  read(call_of(0));
  EXPECT_TRUE(outbox.is_read(ticket));
  const auto next = post(call_of(1), 200);
  EXPECT_EQ(next.slot, ticket.slot);
  EXPECT_TRUE(outbox.is_read(ticket)) << "the slot holds another message";
  EXPECT_FALSE(outbox.is_read(next));
}

TEST_F(MailboxTest, MoreMessagesThanSlotsAreRefusedUntilSomeAreRead) {
  for (uint32_t i = 0; i < PairMailbox::kSlots; ++i) {
    post(call_of(i), i + 1);
  }
  EXPECT_FALSE(outbox.post(CallNumbers::of(call_of(9999)), {false, 1, 1}, nullptr).has_value());
  EXPECT_EQ(read(call_of(17)), 18) << "in any order";
  post(call_of(9999), 77);
  for (uint32_t i = 0; i < PairMailbox::kSlots; ++i) {
    EXPECT_EQ(read(call_of(i)), i == 17 ? 0 : i + 1);
  }
  EXPECT_EQ(read(call_of(9999)), 77);
}

TEST_F(MailboxTest, AnUnreadMessageMovesToACopyWhichIsHeldUntilItIsRead) {
  const auto copy = SharedArena::own()->take(32);
  const auto ticket = post(call_of(0), 100);
  EXPECT_TRUE(outbox.move(ticket, copy));
  EXPECT_EQ(outbox.copied_bytes(), 32);
  EXPECT_EQ(copy.use_count(), 2);
  auto* const slot = inbox.take(call_of(0));
  EXPECT_EQ(slot->is_copy, 1);
  EXPECT_EQ(slot->place, copy->offset());
  EXPECT_TRUE(finish_reading(*slot));
  outbox.reclaim();
  EXPECT_EQ(outbox.copied_bytes(), 0);
  EXPECT_EQ(copy.use_count(), 1);
}

TEST_F(MailboxTest, AMessageThatIsBeingReadDoesNotMove) {
  const auto ticket = post(call_of(0), 100);
  auto* const slot = inbox.take(call_of(0));
  EXPECT_FALSE(outbox.move(ticket, SharedArena::own()->take(32)));
  EXPECT_EQ(slot->place, 100);
  EXPECT_FALSE(outbox.is_read(ticket));
  EXPECT_TRUE(finish_reading(*slot));
  EXPECT_FALSE(outbox.move(ticket, SharedArena::own()->take(32)));
}

TEST_F(MailboxTest, WhatWasRevokedIsNotTrusted) {
  const auto before = post(call_of(0), 100);
  outbox.revoke(before);
  EXPECT_EQ(inbox.take(call_of(0))->state, MessageSlot::Revoked);
  const auto meanwhile = post(call_of(1), 100);
  auto* const slot = inbox.take(call_of(1));
  outbox.revoke(meanwhile);
  EXPECT_FALSE(finish_reading(*slot)) << "the bytes may have changed while they were copied";
  const auto after = post(call_of(2), 100);
  EXPECT_EQ(read(call_of(2)), 100);
  outbox.revoke(after);
  EXPECT_TRUE(outbox.is_read(after));
}

TEST_F(MailboxTest, CopiesThatAreUnreadCanBeTakenOver) {
  const auto copy = SharedArena::own()->take(32);
  outbox.post(CallNumbers::of(call_of(0)), {.is_copy = true, .place = 0, .bytes = 32}, copy);
  outbox.post(CallNumbers::of(call_of(1)), {.is_copy = true, .place = 0, .bytes = 32}, SharedArena::own()->take(32));
  read(call_of(1));
  const auto copies = outbox.take_copies();
  ASSERT_EQ(copies.size(), 1);
  EXPECT_EQ(copies[0], copy);
}

TEST_F(MailboxTest, AThreadReadsInOrderWhatAnotherPosts) {
  constexpr uint64_t kMessages = 20'000;
  std::thread sender([&] {
    for (uint64_t i = 0; i < kMessages; ++i) {
      while (!outbox.post(CallNumbers::of(call_of(i)), {.is_copy = false, .place = i + 1, .bytes = 1}, nullptr)) {
        std::this_thread::yield();
      }
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kMessages;) {
    if (const auto place = read(call_of(i)); place != 0) {
      wrong += place == i + 1 ? 0 : 1;
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
  sender.join();
  EXPECT_EQ(wrong, 0);
}

} // namespace mailbox_test

} // namespace weft
