#pragma once

#include "weft/comm/shared_memory/doorbell.h"
#include "weft/comm/shared_memory/mailbox.h"
#include "weft/comm/shared_memory/peer_process.h"
#include "weft/comm/world/channel.h"

#include <chrono>
#include <functional>

namespace weft {

/// What a member keeps in its shared memory for a channel, all zeros at first. One mailbox per member follows.
struct MemberMemory {
  Doorbell doorbell;             // of this member: rung by the others
  std::atomic<uint32_t> holders; // the other members that have not let go of it
  std::atomic<uint32_t> has_failed;
  char failure[448]; // why, once has_failed is 1

  PairMailbox* mailbox_to(int64_t member) {
    return reinterpret_cast<PairMailbox*>(this + 1) + member;
  }
  static int64_t bytes_for(int64_t members) {
    return static_cast<int64_t>(sizeof(MemberMemory) + members * sizeof(PairMailbox));
  }
};

/// A message that this member reads.
class Arrival {
 public:
  Arrival(MessageSlot* slot, const PeerProcess* sender, Doorbell* bell) : slot_(slot), sender_(sender), bell_(bell) {}

  /// The bytes, if they can be used where they are; nullptr if they must be read.
  const char* mapped() const {
    return slot_->is_copy != 0 ? sender_->at(static_cast<int64_t>(slot_->place)) : nullptr;
  }
  /// Copies bytes of the message. Raises if the sender's process has ended.
  void read(void* target, uint64_t offset, uint64_t bytes) const;
  /// After the last byte was used. Raises if the sender gave up meanwhile, because the bytes may have been others.
  void finish() const;

 private:
  MessageSlot* slot_;
  const PeerProcess* sender_;
  Doorbell* bell_;
};

/// Connects members that are processes of one host by mailboxes in memory that they share. A sender states where its tensor
/// is and goes on; the receiver copies the bytes when it waits. No thread other than the callers takes part, so that none
/// has to get a core first.
///
/// Errors state the reason alone, as in "its process has ended"; the group adds the call and the rank.
class SharedMemoryChannel : public Channel {
 public:
  struct Member {
    std::shared_ptr<PeerProcess> process;
    MemberMemory* memory;
  };
  /// `own` holds this member's memory; `can_read` says whether all members may read each other's memory.
  SharedMemoryChannel(
      int64_t rank,
      std::vector<Member> members,
      std::shared_ptr<SharedBlock> own,
      bool can_read,
      std::chrono::milliseconds timeout);
  ~SharedMemoryChannel() override;

  /// A tensor that is sent to one or several members. If it is released before settle(), receivers that have not read it
  /// get an error.
  class Sending {
   public:
    Sending(SharedMemoryChannel& channel, at::Tensor tensor) : channel_(channel), tensor_(std::move(tensor)) {}
    ~Sending();
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;

   private:
    friend class SharedMemoryChannel;
    SharedMemoryChannel& channel_;
    at::Tensor tensor_;                 // contiguous, unless the bytes are in copy_
    std::shared_ptr<SharedBlock> copy_; // of all bytes
    struct Receiver {
      int64_t member;
      Outbox::Ticket ticket;
    };
    std::vector<Receiver> receivers_; // that read from the tensor itself
  };

  std::shared_ptr<Sending> prepare(const at::Tensor& tensor);
  void post(const Call& call, Sending& sending, int64_t to);
  /// Returns when the tensor may be changed: all receivers have read it, or, if they take long, it was copied.
  void settle(Sending& sending);

  /// Repeats `attempt` whenever another member may have done something, until it is true. False if it is not within the
  /// timeout, or if the channel has failed. From time to time the argument is true: then it is worth a system call to see
  /// whether a member is alive.
  using Attempt = std::function<bool(bool looks)>;
  bool wait(const Attempt& attempt);

  /// The message of this call from a member if it is there. Raises if it is another call's, or can no longer come.
  std::optional<Arrival> receive(const Call& call, int64_t from, uint64_t bytes, bool looks);
  /// How often the other members have told this one that there is something new.
  uint32_t rings() const {
    return members_[rank_].memory->doorbell.rings();
  }
  /// Says that a message has not come, and what has come instead.
  std::string describe_missing(int64_t from);

 protected:
  void tell_failure(std::string_view what) override;

 private:
  bool wait_until(std::chrono::steady_clock::time_point end, const Attempt& attempt);
  MessageSlot* take(const Call& call, int64_t from);
  /// Forgets the receivers that have read the tensor; whether none is left. Raises if one is gone.
  bool all_have_read(Sending& sending, bool looks);
  /// Lets all receivers that have not begun to read it read a copy.
  void copy_unread(Sending& sending);
  int64_t unread_copied_bytes();

  int64_t rank_;
  std::vector<Member> members_;
  std::shared_ptr<SharedBlock> own_;
  bool can_read_;
  std::chrono::milliseconds timeout_;
  int64_t process_; // that made the channel; a child made by fork only lets go of it
  SpinTime spin_time_;
  std::mutex mutex_; // of the mailboxes
  std::vector<Outbox> outboxes_;
  std::vector<Inbox> inboxes_;
};

} // namespace weft
