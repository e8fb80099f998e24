#pragma once

#include "weft/core/device_mesh.h"

#include <optional>
#include <string>

namespace weft {

/// The mesh dim of the shards, and the one over which they are replicated (hybrid sharding).
struct ShardDims {
  std::string shard;
  std::optional<std::string> replicate;
};

/// The mesh dims that a user means. Without names: the only one, or shards over the last of two and replicas over the first, as
/// PyTorch's fully_shard takes a mesh of two dims.
ShardDims shard_dims(
    const DeviceMesh& mesh,
    const std::optional<std::string>& shard,
    const std::optional<std::string>& replicate);

} // namespace weft
