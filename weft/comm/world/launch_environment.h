#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// What a launcher tells a process about its place among the others.
struct LaunchEnvironment {
  int64_t rank;
  int64_t world_size;
  std::string master_address;
  int64_t master_port;
  /// Whether the launcher serves the store itself (torchrun's agent does); else rank 0 serves it.
  bool launcher_serves_store;
  /// How often the launcher has restarted the job: stale keys of an earlier attempt must not be read.
  int64_t attempt;
};

/// Reads RANK and WORLD_SIZE as torchrun sets them, or Open MPI's or MPICH's own variables, with MASTER_ADDR (127.0.0.1)
/// and MASTER_PORT (29500). Nothing where no launcher started this process; raises where the values make no sense.
std::optional<LaunchEnvironment> read_launch_environment();

} // namespace weft
