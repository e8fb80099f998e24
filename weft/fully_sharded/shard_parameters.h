#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

/// The numbers of the tensors that can share one flat buffer: those of one dtype and mesh, all with a gradient or all without.
std::vector<std::vector<size_t>> flat_groups(c10::ArrayRef<at::Tensor> parameters);

/// The strides of a parameter that is sharded along `dim`: its rows, the indices of that dim, are outermost, so that each shard is
/// one range of memory.
c10::DimVector row_strides(c10::IntArrayRef sizes, int64_t dim);

/// The ragged shards of the parameters of one unit over a mesh dim, detached. Plain parameters are those of one device, the same
/// on every rank, and are distributed over the mesh from its first rank. Distributed ones keep their placements on other mesh dims,
/// which shard them first, and must be replicated over this one. Those on a mesh without it, `mesh["tp"]`, come to be on both.
///
/// Parameter i is sharded along its dim `tensor_dims[i]`, by default its first. With `keep_on` the shards are on the devices of that type, and so is their mesh.
///
///   shard_parameters({weight, bias}, mesh, "dp")   // f32[8,4] {S(0|5:3)}, f32[8] {S(0|0:8)}
std::vector<at::Tensor> shard_parameters(
    c10::ArrayRef<at::Tensor> parameters,
    const DeviceMesh& mesh,
    const std::string& mesh_dim,
    std::optional<c10::DeviceType> keep_on = std::nullopt,
    c10::IntArrayRef tensor_dims = {});

} // namespace weft
