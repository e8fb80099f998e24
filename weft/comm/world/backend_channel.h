#pragma once

#include "weft/comm/world/first_failure.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

namespace weft {

/// The connections of a group's members, as seen by one member, and the sequence numbers of the calls made on them.
class BackendChannel {
 public:
  /// With a second backend of the same members, each pair of members has one connection per direction, so that a thread
  /// that sends does not block the thread that receives. The members exchange through the store what a backend cannot.
  BackendChannel(
      c10::intrusive_ptr<c10d::Store> store,
      c10::intrusive_ptr<c10d::Backend> backend,
      c10::intrusive_ptr<c10d::Backend> downward = {})
      : store_(std::move(store)), backend_(std::move(backend)), downward_(std::move(downward)) {}

  c10d::Backend& backend() {
    return *backend_;
  }
  /// The backend that carries messages from one member to another.
  c10d::Backend& backend(int64_t from, int64_t to) {
    return from < to || !downward_ ? *backend_ : *downward_;
  }
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
  /// A value that a higher layer stores with the connections. The first call makes it; all members make this call
  /// together.
  using MakeAttachment =
      std::function<std::shared_ptr<void>(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size)>;
  void* attachment(const MakeAttachment& make);

  /// Raises an error that names the call, the group and its ranks. Every later call on this channel fails at once.
  [[noreturn]] void fail(const Group& group, const Call& call, std::string_view what);
  void check_usable(const Group& group, const Call& call) const {
    first_failure_.check_none(group, call);
  }
  bool has_failed() const {
    return first_failure_.has_happened();
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::intrusive_ptr<c10d::Backend>
      downward_; // to members with a lower number; if empty, backend_ carries all messages
  std::atomic<uint64_t> calls_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<Collective, int64_t>, uint64_t> messages_;
  FirstFailure first_failure_;
  std::optional<std::shared_ptr<void>> attachment_;
};

/// A group on a BackendChannel.
class BackendGroup : public Group {
 public:
  BackendGroup(Communicator& communicator, GroupDescription description, std::shared_ptr<BackendChannel> channel)
      : Group(communicator, std::move(description)), communicator_(communicator), channel_(std::move(channel)) {}

  BackendChannel& channel() {
    return *channel_;
  }
  std::chrono::milliseconds timeout() const;
  /// Counts a collective that a higher layer performs through shared memory, as other collectives are counted.
  void log(Collective collective, const at::Tensor& input, int64_t received_bytes);

 protected:
  uint64_t next_sequence() override {
    return channel_->next_sequence();
  }
  uint64_t next_message(Collective direction, int64_t peer) override {
    return channel_->next_message(direction, peer);
  }

  Communicator& communicator_;
  std::shared_ptr<BackendChannel> channel_;
};

} // namespace weft
