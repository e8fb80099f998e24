#pragma once

#include "weft/comm/group.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>

namespace weft {

/// What the members of a group talk through, as one of them sees it: connections, and the numbers of the calls made.
class BackendChannel {
 public:
  /// With a second backend of the same members, each pair has a connection per direction: a thread that sends then does
  /// not hold up the one that receives. The store is where its members meet for what a backend has not.
  BackendChannel(
      c10::intrusive_ptr<c10d::Store> store,
      c10::intrusive_ptr<c10d::Backend> backend,
      c10::intrusive_ptr<c10d::Backend> downward = {})
      : store_(std::move(store)), backend_(std::move(backend)), downward_(std::move(downward)) {}

  c10d::Backend& backend() {
    return *backend_;
  }
  /// The one that carries messages from one member to another.
  c10d::Backend& backend(int64_t from, int64_t to) {
    return from < to || !downward_ ? *backend_ : *downward_;
  }
  uint64_t next_sequence() {
    return calls_++;
  }
  uint64_t next_message(Collective direction, int64_t peer);

  /// How many calls this member has made so far.
  struct Counters {
    uint64_t calls = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    bool operator==(const Counters&) const = default;
  };
  Counters counters() const;
  /// What a layer above keeps with the connections: made by the first call, which all members make together.
  using MakeAttachment =
      std::function<std::shared_ptr<void>(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size)>;
  void* attachment(const MakeAttachment& make);

  /// Raises an error that names the call, the group and its ranks; from then on every call on this channel fails at
  /// once, since its members no longer agree on where they are.
  [[noreturn]] void fail(const Group& group, const Call& call, std::string_view what);
  void check_usable(const Group& group, const Call& call);
  bool has_failed() const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::intrusive_ptr<c10d::Backend> downward_; // to lower members; none: backend_ carries everything
  std::atomic<uint64_t> calls_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<Collective, int64_t>, uint64_t> messages_;
  std::string first_failure_;
  std::optional<std::shared_ptr<void>> attachment_;
};

/// A group on such a channel.
class BackendGroup : public Group {
 public:
  BackendGroup(Communicator& communicator, GroupDescription description, std::shared_ptr<BackendChannel> channel)
      : Group(communicator, std::move(description)), communicator_(communicator), channel_(std::move(channel)) {}

  BackendChannel& channel() {
    return *channel_;
  }
  std::chrono::milliseconds timeout() const;
  /// Has a collective that goes through that memory counted as the others are.
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
