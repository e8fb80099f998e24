#pragma once

#include "weft/comm/communicator.h"

#include <exception>

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

  /// Says that a rank takes part in nothing any more. Whoever waits for it gets an error that says why.
  void leave(int64_t rank, std::string reason);

 private:
  friend class ThreadCommunicator;
  friend class ThreadGroup;
  friend struct ThreadChannel;
  struct Room;

  std::shared_ptr<Room> room(const std::vector<int64_t>& ranks);
  bool has_left(int64_t rank) const;
  std::string why_left(int64_t rank) const;

  int64_t size_;
  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::vector<std::atomic<bool>> left_;
  std::vector<std::string> reasons_;
  std::map<std::vector<int64_t>, std::shared_ptr<Room>> rooms_;
};

} // namespace weft
