#pragma once

#include "weft/comm/communicator.h"

#include <exception>
#include <set>

namespace weft {

/// Ranks that are threads of one process: tensors are read where they lie, nothing is packed or sent.
///
/// Shared by all ranks; each rank has its own communicator.
class ThreadHub : public std::enable_shared_from_this<ThreadHub> {
 public:
  ThreadHub(int64_t size, std::chrono::milliseconds timeout);
  ~ThreadHub();

  /// The communicator of one rank, to be used by that rank's thread.
  c10::intrusive_ptr<Communicator> communicator(int64_t rank);

  /// How many groups have a member that holds them.
  size_t room_count() const;

  /// Says that a rank takes part in nothing any more. Whoever waits for it gets an error that says why.
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
  std::set<std::shared_ptr<Room>> failed_rooms_;     // for ranks that are still to come to the call that failed
};

} // namespace weft
