#pragma once

#include "weft/comm/comm_log.h"
#include "weft/comm/group.h"
#include "weft/core/device_mesh.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

namespace weft {

/// From so many groups on, a world that has to make another asks the thread's caches to let go of theirs first.
constexpr size_t kManyGroups = 16;

/// A world whose ranks can talk: it makes the groups. One per rank; the backends derive from it.
class Communicator : public World {
 public:
  Communicator(int64_t rank, int64_t size, std::chrono::milliseconds timeout) : World(rank, size), timeout_(timeout) {}

  /// The communicator of the mesh's world; raises where the mesh is for planning only.
  static Communicator& of(const DeviceMesh& mesh);

  /// The ranks that differ from this one only along these mesh dims. Made when first asked for, by its members alone, and
  /// kept for as long as a mesh that is equal to this one lives. Several threads may make groups at the same time.
  std::shared_ptr<Group> group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

  /// How long a collective may take before it is an error.
  std::chrono::milliseconds timeout() const {
    return timeout_;
  }
  /// How many groups there are.
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
  /// nullptr: there is none, and this thread must make it, for which others wait.
  std::shared_ptr<Group> find_or_take(const std::string& identity);
  void drop_cached_groups();
  size_t forget_dead_groups();

  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  std::map<std::string, Slot> groups_; // by identity
  std::atomic<size_t> most_groups_ = kManyGroups;
  std::mutex log_mutex_;
  std::vector<CommLog*> logs_;
  std::atomic<bool> logging_ = false;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

/// What describes the group of a mesh's dims.
GroupDescription describe_group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

/// Has `drop` called by a world of many groups that has to make another. Caches keep what is known of meshes that are gone, and with them their groups and connections.
/// It must leave valid what the calls under way on this thread have found in the cache.
void on_many_groups(void (*drop)());

/// WEFT_TIMEOUT_SECONDS, or ten minutes.
std::chrono::milliseconds default_timeout();

} // namespace weft
