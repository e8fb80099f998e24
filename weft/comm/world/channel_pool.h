#pragma once

#include "weft/comm/world/backend_channel.h"
#include "weft/comm/world/store_meeting.h"

#include <condition_variable>
#include <list>

namespace weft {

/// The channels of one rank to the groups of ranks that it is in. Every group has a channel of its own while it is held.
///
/// A channel whose group is held no more is idle, and goes on where it was when the group is made again: other ranks may
/// hold the group still, as ranks let go of meshes at different times. When a new group of the same ranks is made, its
/// members meet and take over a channel that all of them have idle and have made the same calls on; only where there is
/// none are they connected anew. So there are as many connections as groups were held at once, however many meshes a
/// program makes one after the other.
class ChannelPool {
 public:
  ChannelPool(c10::intrusive_ptr<c10d::Store> store, int64_t rank, std::chrono::milliseconds timeout)
      : store_(std::move(store)), rank_(rank), timeout_(timeout) {}

  /// One thread at a time may ask for the same group.
  std::shared_ptr<BackendChannel> channel(const GroupDescription& group);

  /// The group, and those of the same ranks and label that have none of their own, use this backend from now on. The first
  /// one counts. Groups that share a backend share a channel.
  void adopt(const GroupDescription& group, const c10::intrusive_ptr<c10d::Backend>& backend);

  /// How many channels have been connected.
  size_t size() const;

 private:
  using Place = std::pair<std::vector<int64_t>, c10::DeviceType>;
  struct Entry {
    Place place;
    int64_t id; // the same on all members
    std::string identity;
    std::shared_ptr<BackendChannel> channel;
    std::string offered_to = {}; // the identity of a group whose members are about to decide whether it takes it over
  };
  struct Adopted {
    std::map<std::string, std::shared_ptr<BackendChannel>> by_identity;
    std::map<std::pair<Place, std::string>, std::shared_ptr<BackendChannel>> by_label;
    std::map<c10d::Backend*, std::weak_ptr<BackendChannel>> by_backend;
  };

  std::shared_ptr<BackendChannel> find_adopted(const GroupDescription& group) const;
  Entry* find(const std::string& identity);
  /// Offers the idle channels of the group's ranks to it: the word of this member.
  std::string offer(const GroupDescription& group);
  /// Ends the offers; the channel of this id becomes the group's if it was offered, otherwise the result is nullptr.
  std::shared_ptr<BackendChannel> take(const GroupDescription& group, int64_t id);
  void drop_offered(const GroupDescription& group);
  int64_t agree(const StoreMeeting& meeting, const GroupDescription& group) const;
  std::shared_ptr<BackendChannel> connect(
      const GroupDescription& group,
      int64_t id,
      const c10::intrusive_ptr<c10d::Store>& whole_store) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable decided_;
  std::list<Entry> entries_;
  std::map<Place, int64_t> next_id_;
  Adopted adopted_;
};

} // namespace weft
