#pragma once

#include "weft/comm/comm_log.h"
#include "weft/comm/group.h"
#include "weft/core/device_mesh.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

namespace weft {

/// A world with this many groups asks the thread's caches to release their groups before it makes another one.
constexpr size_t kManyGroups = 16;

/// A world whose ranks can communicate: it makes the groups. There is one per rank; the backends derive from it.
class Communicator : public World {
 public:
  Communicator(int64_t rank, int64_t size, std::chrono::milliseconds timeout) : World(rank, size), timeout_(timeout) {}

  /// The communicator of the mesh's world; raises if the mesh is for planning only.
  static Communicator& of(const DeviceMesh& mesh);

  /// The group of the ranks that differ from this rank only along these mesh dims. It is made at the first call, by its
  /// members only, and kept as long as a mesh equal to this one lives. Several threads may make groups at the same
  /// time.
  std::shared_ptr<Group> group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

  /// The next number, from 1 on, of what the calls of such a group are about (see SubjectScope): the same on all members that
  /// number theirs in one order.
  uint32_t number_subject(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

  /// The time that a collective may take before it raises an error.
  std::chrono::milliseconds timeout() const {
    return timeout_;
  }
  /// The number of groups that are alive.
  size_t group_count() const;

  Progress& progress() {
    return *progress_;
  }

  void attach(CommLog* log);
  void detach(CommLog* log);
  void log_call(const Call& call, const Group& group, int64_t received_bytes);

 protected:
  virtual std::shared_ptr<Group> make_group(GroupDescription description) = 0;

 private:
  struct Slot {
    std::weak_ptr<Group> group;
    bool is_being_made = false;
  };

  std::shared_ptr<Group> find_or_make(GroupDescription description);
  /// The group if it exists. nullptr means that this thread must make it; other threads then wait for it.
  std::shared_ptr<Group> find_or_take(const std::string& identity);
  void drop_cached_groups();
  size_t forget_dead_groups();

  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<std::string, Slot> groups_;       // by identity
  std::map<std::string, uint32_t> subjects_; // how many were numbered, by the group's identity
  std::atomic<size_t> most_groups_ = kManyGroups;
  std::mutex log_mutex_;
  std::vector<CommLog*> logs_;
  std::atomic<bool> logging_ = false;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

/// The description of the group along some dims of a mesh.
GroupDescription describe_group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

/// Registers a function that releases a cache's groups. A world with many groups calls it before it makes another one,
/// because cache entries keep the groups and connections of meshes that no longer exist. `drop` must keep valid every
/// cache entry that a running call on this thread uses.
void on_many_groups(void (*drop)());

/// WEFT_TIMEOUT_SECONDS, or ten minutes.
std::chrono::milliseconds default_timeout();

} // namespace weft
