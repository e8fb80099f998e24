#pragma once

#include "weft/fully_sharded/shard_dims.h"

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace weft {

/// Shards on the CPU of parameters that are gathered on another device.
struct Offload {
  c10::DeviceType device;  // where they are gathered
  bool pins_memory = true; // so that copies do not wait
};

struct UnitOptions {
  /// The mesh dim over which parameters are sharded, and one over which such shards are replicated (hybrid sharding).
  std::string mesh_dim;
  std::optional<std::string> replicate_dim = std::nullopt;
  /// Whether gathered parameters are freed after forward and gathered again for backward. A forward without gradients frees them in
  /// any case.
  bool reshard_after_forward = true;
  /// With reshard_after_forward: each rank keeps a part of the gathered parameters, so that the gather for backward is among so many
  /// neighbours along the mesh dim, a number that divides its size. 0: its shard alone.
  int64_t reshard_to = 0;
  /// The dtypes in which parameters are gathered and gradients reduced; those of the parameters and of the gathered ones.
  std::optional<at::ScalarType> gathered_dtype = std::nullopt;
  std::optional<at::ScalarType> reduced_dtype = std::nullopt;
  /// Where parameters are gathered, if their shards, with gradients and the optimizer's state, are kept on the CPU.
  std::optional<Offload> offload = std::nullopt;

  ShardDims dims() const {
    return {.shard = mesh_dim, .replicate = replicate_dim};
  }
};

} // namespace weft
