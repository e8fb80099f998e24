#include "weft/fully_sharded/shard_dims.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft {

ShardDims shard_dims(
    const DeviceMesh& mesh,
    const std::optional<std::string>& shard,
    const std::optional<std::string>& replicate) {
  const auto& names = mesh.names();
  for (const auto& name : {shard, replicate}) {
    TORCH_CHECK_VALUE(
        !name || std::find(names.begin(), names.end(), *name) != names.end(), "[fully_shard] a mesh dim of ", mesh,
        " is required, but got '", *name, "'.");
  }
  TORCH_CHECK_VALUE(
      !shard || shard != replicate, "[fully_shard] different mesh dims are required for shards and replicas, but got '",
      *shard, "' for both.");
  if (shard) {
    return {*shard, replicate};
  }
  TORCH_CHECK_VALUE(
      mesh.ndim() == 1 || (mesh.ndim() == 2 && !replicate),
      "[fully_shard] mesh_dim is required for a mesh of several dims, but got none for ", mesh,
      ". Name the dim over which the parameters are sharded, and replicate_dim where they are replicated over "
      "another.");
  return mesh.ndim() == 1 ? ShardDims{names[0], std::nullopt} : ShardDims{names[1], names[0]};
}

} // namespace weft
