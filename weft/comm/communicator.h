#pragma once

#include "weft/comm/comm_log.h"
#include "weft/comm/group.h"
#include "weft/core/device_mesh.h"

#include <chrono>
#include <map>
#include <mutex>

namespace weft {

/// A world whose ranks can talk: it makes the groups. One per rank; the backends derive from it.
class Communicator : public World {
 public:
  Communicator(int64_t rank, int64_t size, std::chrono::milliseconds timeout) : World(rank, size), timeout_(timeout) {}

  /// The communicator of the mesh's world; raises where the mesh is for planning only.
  static Communicator& of(const DeviceMesh& mesh);

  /// The ranks that differ from this one only along these mesh dims. Made when first asked for, by its members alone.
  std::shared_ptr<Group> group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

  /// How long a collective may take before it is an error.
  std::chrono::milliseconds timeout() const {
    return timeout_;
  }
  /// How many groups have been made so far.
  size_t group_count() const;

  Progress& progress() {
    return *progress_;
  }

  void attach(CommLog* log);
  void detach(CommLog* log);
  void log_call(const Call& call, const Group& group, int64_t received_bytes);

 protected:
  virtual std::shared_ptr<Group> make_group(
      std::string label,
      std::vector<int64_t> ranks,
      int64_t rank_in_group,
      c10::DeviceType device_type) = 0;

 private:
  using GroupKey = std::tuple<std::vector<int64_t>, std::string, c10::DeviceType>;

  std::chrono::milliseconds timeout_;
  mutable std::mutex mutex_;
  std::map<GroupKey, std::shared_ptr<Group>> groups_;
  std::mutex log_mutex_;
  std::vector<CommLog*> logs_;
  std::atomic<bool> logging_ = false;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

/// WEFT_TIMEOUT_SECONDS, or ten minutes.
std::chrono::milliseconds default_timeout();

} // namespace weft
