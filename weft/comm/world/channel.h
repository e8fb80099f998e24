#pragma once

#include "weft/comm/world/first_failure.h"

#include <atomic>
#include <map>
#include <mutex>

namespace weft {

/// What connects a group's members, as seen by one member, and the sequence numbers of the calls made on it. It outlives the
/// group: a later group of the same ranks goes on with it.
class Channel {
 public:
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  uint64_t next_sequence() {
    return calls_++;
  }
  uint64_t next_message(Collective direction, int64_t peer);

  /// The numbers of calls that this member has made.
  struct Counters {
    uint64_t calls = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    bool operator==(const Counters&) const = default;
  };
  Counters counters() const;

  /// Raises an error that names the call, the group and its ranks. Every later call on this channel fails at once.
  [[noreturn]] void fail(const Group& group, const Call& call, std::string_view what);
  void check_usable(const Group& group, const Call& call) const {
    first_failure_.check_none(group, call);
  }
  bool has_failed() const {
    return first_failure_.has_happened();
  }

 protected:
  /// Called for the first failure, before its error is raised.
  virtual void tell_failure(std::string_view /*what*/) {}

 private:
  std::atomic<uint64_t> calls_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<Collective, int64_t>, uint64_t> messages_;
  FirstFailure first_failure_;
};

/// A group whose calls are numbered by its channel.
class ChannelGroup : public Group {
 public:
  ChannelGroup(Communicator& communicator, GroupDescription description, Channel& channel)
      : Group(communicator, std::move(description)), numbers_(channel) {}

 protected:
  uint64_t next_sequence() override {
    return numbers_.next_sequence();
  }
  uint64_t next_message(Collective direction, int64_t peer) override {
    return numbers_.next_message(direction, peer);
  }

 private:
  Channel& numbers_;
};

} // namespace weft
