#pragma once

#include "weft/fully_sharded/flat_parameters.h"
#include "weft/fully_sharded/shard_dims.h"

namespace weft {

/// A gathered parameter as a module uses it: a new view of the gathered buffer. In the global view it is a distributed tensor,
/// replicated over the mesh dim of the shards; otherwise it is distributed over the mesh dims that are neither that nor the one of
/// the replicas, or plain if there are none.
at::Tensor gathered_parameter(const FlatParameters& parameters, size_t number, const ShardDims& dims, bool is_global);

} // namespace weft
