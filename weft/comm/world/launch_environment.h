#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

/// The rank and addresses that a launcher passes to a process.
struct LaunchEnvironment {
  int64_t rank;
  int64_t world_size;
  std::string master_address;
  int64_t master_port;
  /// Whether the launcher itself serves the store (torchrun's agent does); otherwise rank 0 serves it.
  bool launcher_serves_store;
  /// The number of restarts of the job, so that keys of an earlier attempt are not read.
  int64_t attempt;
};

/// Reads RANK and WORLD_SIZE as torchrun sets them, or the variables of Open MPI or MPICH, with MASTER_ADDR (127.0.0.1)
/// and MASTER_PORT (29500). Empty if no launcher started this process; raises if the values are inconsistent.
std::optional<LaunchEnvironment> read_launch_environment();

} // namespace weft
