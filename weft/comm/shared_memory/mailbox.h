#pragma once

#include "weft/comm/collective.h"
#include "weft/comm/shared_memory/shared_arena.h"

#include <atomic>
#include <optional>
#include <vector>

namespace weft {

/// The parts of a Call that a sender states with a message, as plain numbers.
struct CallNumbers {
  uint64_t sequence;
  uint8_t collective;
  uint8_t op;
  int8_t dtype;
  uint8_t stage;
  uint32_t ndim;
  int64_t root;
  uint32_t subject;
  int64_t sizes[8]; // the first ones

  static CallNumbers of(const Call& call);
  Call call() const;
  /// Whether both number the same call, whatever each says that it is.
  bool same_number(const Call& call) const;
};

/// A message as its sender describes it in shared memory. The reader copies the bytes from where the sender says.
///
///   Unused or Read -> Posted          by the sender
///   Posted -> Moving -> Posted        by the sender, which states another place of the same bytes
///   Posted -> Claimed -> Read         by the reader, which copies the bytes in between
///   Posted or Claimed -> Revoked      by a sender that gives up: what is read from then on counts for nothing
struct MessageSlot {
  enum State : uint32_t { Unused, Posted, Moving, Claimed, Read, Revoked };

  alignas(64) std::atomic<uint32_t> state;
  uint32_t is_copy; // `place` is an offset in the sender's shared memory; otherwise an address in its own memory
  uint64_t place;
  uint64_t bytes;
  CallNumbers numbers;
};

/// The messages from one member to another, in the shared memory of the sender. All zeros is an empty one. A sender may have
/// that many messages unread; pages that are not needed take no memory.
struct PairMailbox {
  static constexpr uint32_t kSlots = 4096;

  /// A ring in the order of posting: the number of a slot and 1; the reader sets what it has seen to 0. It never overflows,
  /// because a slot has at most one entry.
  std::atomic<uint32_t> order[kSlots];
  MessageSlot slots[kSlots];
};

/// The sender's side of a mailbox. The caller locks.
class Outbox {
 public:
  explicit Outbox(PairMailbox* mailbox);

  /// Names a message for as long as it is unread.
  struct Ticket {
    uint32_t slot;
    uint64_t number;
  };
  struct Place {
    bool is_copy;
    uint64_t place;
    uint64_t bytes;
  };
  /// Posts a message; `copy`, where its bytes are, is held until it is read. Nothing if too many messages are unread.
  std::optional<Ticket> post(const CallNumbers& numbers, Place place, std::shared_ptr<SharedBlock> copy);
  /// Whether the reader has copied the bytes.
  bool is_read(Ticket ticket);
  /// States that the bytes are in `copy` now. False if a reader is at them, or has been.
  bool move(Ticket ticket, std::shared_ptr<SharedBlock> copy);
  /// From now on no reader trusts the bytes.
  void revoke(Ticket ticket);
  /// Takes back the slots of messages that were read.
  void reclaim();
  /// The bytes of unread messages that are copies.
  int64_t copied_bytes() const {
    return copied_bytes_;
  }
  /// The copies that are still unread.
  std::vector<std::shared_ptr<SharedBlock>> take_copies();

 private:
  struct Unread {
    Ticket ticket;
    std::shared_ptr<SharedBlock> copy; // nullptr: the bytes are in the sender's tensor
  };
  std::atomic<uint32_t>& state(Ticket ticket) const {
    return mailbox_->slots[ticket.slot].state;
  }
  Unread* find(Ticket ticket);

  PairMailbox* mailbox_;
  uint64_t posted_ = 0;
  std::vector<uint32_t> free_;
  std::vector<Unread> unread_;
  int64_t copied_bytes_ = 0;
};

/// The reader's side of a mailbox. The caller locks.
class Inbox {
 public:
  explicit Inbox(PairMailbox* mailbox) : mailbox_(mailbox) {}

  /// The message of this call if it has been posted; it is not listed from then on. The caller copies its bytes and calls
  /// finish_reading(), unless the sender has revoked it.
  MessageSlot* take(const Call& call);
  /// Of the messages that are listed, the one that was posted first.
  std::optional<Call> first_listed() const;

 private:
  void list_posted();

  PairMailbox* mailbox_;
  uint64_t seen_ = 0;
  std::vector<uint32_t> listed_; // slots that were posted and not taken
};

/// After the bytes have been copied: whether they count, which they do not if the sender has revoked the message.
bool finish_reading(MessageSlot& slot);

} // namespace weft
