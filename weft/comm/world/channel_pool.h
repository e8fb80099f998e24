#pragma once

#include "weft/comm/world/backend_channel.h"
#include "weft/comm/world/store_meeting.h"

#include <condition_variable>
#include <list>

namespace weft {

/// The channels of one rank, one for each group that this rank holds.
///
/// A channel whose group is no longer held is idle. If the group is made again, it continues on the same channel,
/// because ranks release meshes at different times and other ranks may still hold the group. When a new group of the
/// same ranks is made, its members reuse a channel that is idle on all of them and on which they have made the same
/// calls; only without such a channel do they connect again. So there are at most as many connections as groups were
/// held at the same time, however many meshes a program makes one after the other.
class ChannelPool {
 public:
  ChannelPool(c10::intrusive_ptr<c10d::Store> store, int64_t rank, std::chrono::milliseconds timeout)
      : store_(std::move(store)), rank_(rank), timeout_(timeout) {}

  /// Only one thread at a time may ask for the same group.
  std::shared_ptr<Channel> channel(const GroupDescription& group);

  /// The group uses this backend from now on, and so do groups of the same ranks and label that have adopted none
  /// themselves. The first adopted backend is kept. Groups that share a backend share a channel.
  void adopt(const GroupDescription& group, const c10::intrusive_ptr<c10d::Backend>& backend);

  /// The number of channels that have been connected.
  size_t size() const;

 private:
  using Place = std::pair<std::vector<int64_t>, c10::DeviceType>;
  struct Entry {
    Place place;
    int64_t id; // the same on all members
    std::string identity;
    std::shared_ptr<Channel> channel;
    std::string offered_to = {}; // the identity of a group whose members may take the channel over
  };
  struct Adopted {
    std::map<std::string, std::shared_ptr<Channel>> by_identity;
    std::map<std::pair<Place, std::string>, std::shared_ptr<Channel>> by_label;
    std::map<c10d::Backend*, std::weak_ptr<Channel>> by_backend;
  };

  std::shared_ptr<Channel> find_adopted(const GroupDescription& group) const;
  Entry* find(const std::string& identity);
  /// Offers the idle channels of the group's ranks to the group; returns the text that this member publishes.
  std::string offer(const GroupDescription& group);
  /// Ends the offers. The channel of this id becomes the group's if it was offered, otherwise the result is nullptr.
  std::shared_ptr<Channel> take(const GroupDescription& group, int64_t id);
  void drop_offered(const GroupDescription& group);
  int64_t agree(const StoreMeeting& meeting, const GroupDescription& group) const;
  std::shared_ptr<Channel> connect(
      const GroupDescription& group,
      int64_t id,
      const c10::intrusive_ptr<c10d::Store>& pool_store) const;

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
