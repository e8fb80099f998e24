#pragma once

#include "weft/comm/communicator.h"

#include <exception>
#include <set>

namespace weft {

/// A world whose ranks are threads of one process: they read each other's tensors directly, without packing or sending.
///
/// All ranks share the hub; each rank has its own communicator.
class ThreadHub : public std::enable_shared_from_this<ThreadHub> {
 public:
  ThreadHub(int64_t size, std::chrono::milliseconds timeout);
  ~ThreadHub();

  /// The communicator of one rank, to be used by that rank's thread.
  c10::intrusive_ptr<Communicator> communicator(int64_t rank);

  /// The number of groups that at least one member holds.
  size_t room_count() const;

  /// States that a rank makes no further calls. Ranks that wait for it get an error with the reason.
  void leave(int64_t rank, std::string reason);

 private:
  friend class ThreadCommunicator;
  friend class ThreadGroup;
  struct Room;

  std::shared_ptr<Room> room(const GroupDescription& group);
  void keep(std::shared_ptr<Room> room);
  bool has_left(int64_t rank) const;
  std::string why_left(int64_t rank) const;

  int64_t size_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::vector<std::atomic<bool>> left_;
  std::vector<std::string> reasons_;
  std::map<std::string, std::weak_ptr<Room>> rooms_; // by the identity of the group
  std::set<std::shared_ptr<Room>> failed_rooms_;     // kept for ranks that have not reached the failed call yet
};

} // namespace weft
