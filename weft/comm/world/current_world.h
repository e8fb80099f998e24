#pragma once

#include "weft/comm/communicator.h"

#include <string_view>

namespace weft {

/// The world of this thread's rank: the innermost WorldScope's; else the process's, which is made when first asked for,
/// from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT where a launcher has set them (torchrun, mpirun), and otherwise is
/// one rank by itself.
c10::intrusive_ptr<Communicator> current_world();

/// Whether this thread is a rank of its own, in a WorldScope; otherwise the process is one.
bool in_world_scope();

/// Makes `world` this thread's current world while it lasts.
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
