#pragma once

#include "weft/comm/communicator.h"

#include <string_view>

namespace weft {

/// The world of this thread's rank: that of the innermost WorldScope, or else the process's world. The latter is made
/// at the first call, from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT if a launcher has set them (torchrun, mpirun),
/// and otherwise has one rank.
c10::intrusive_ptr<Communicator> current_world();

/// Whether this thread is a rank, in a WorldScope; otherwise the process is a rank.
bool in_world_scope();

/// Makes `world` this thread's current world until the end of the scope.
class WorldScope {
 public:
  explicit WorldScope(c10::intrusive_ptr<Communicator> world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  c10::intrusive_ptr<Communicator> outer_;
};

/// A mesh over the current world's first ranks.
///
///   auto mesh = init_device_mesh("cpu", {2, 4}, {"dp", "tp"});
DeviceMesh init_device_mesh(std::string_view device_type, c10::IntArrayRef shape, std::vector<std::string> names = {});

} // namespace weft
