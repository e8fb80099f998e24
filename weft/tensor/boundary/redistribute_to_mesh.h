#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

namespace weft {

/// The same global tensor on another mesh of the same world, with memory of its own. Every rank of either mesh must call
/// it. Where the meshes have the same ranks, the result is differentiable.
///
///   redistribute_to_mesh(t, init_device_mesh("cpu", {2, 2}), {Shard(0), Replicate()});
///
/// Partial mesh dims are reduced on the tensor's own mesh. Then every rank receives what it lacks, from a rank that has
/// it, by one all_to_all over the ranks of both meshes; by none where every rank keeps what it has.
at::Tensor redistribute_to_mesh(const at::Tensor& tensor, const DeviceMesh& mesh, const Layout& layout);

} // namespace weft
