#pragma once

#include "weft/comm/world/channel.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <mutex>
#include <optional>

namespace weft {

/// The connections of a group's members through backends of c10d.
class BackendChannel : public Channel {
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

  /// A value that a higher layer stores with the connections. The first call makes it; all members make this call
  /// together.
  using MakeAttachment =
      std::function<std::shared_ptr<void>(const c10::intrusive_ptr<c10d::Store>& store, int64_t rank, int64_t size)>;
  void* attachment(const MakeAttachment& make);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  c10::intrusive_ptr<c10d::Backend>
      downward_; // to members with a lower number; if empty, backend_ carries all messages
  std::mutex mutex_;
  std::optional<std::shared_ptr<void>> attachment_;
};

/// A group on a BackendChannel.
class BackendGroup : public ChannelGroup {
 public:
  BackendGroup(Communicator& communicator, GroupDescription description, std::shared_ptr<BackendChannel> channel)
      : ChannelGroup(communicator, std::move(description), *channel),
        communicator_(communicator),
        channel_(std::move(channel)) {}

  BackendChannel& channel() {
    return *channel_;
  }
  std::chrono::milliseconds timeout() const;
  /// Counts a collective that a higher layer performs through shared memory, as other collectives are counted.
  void log(Collective collective, const at::Tensor& input, int64_t received_bytes);

 protected:
  Communicator& communicator_;
  std::shared_ptr<BackendChannel> channel_;
};

} // namespace weft
