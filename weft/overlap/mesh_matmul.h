#pragma once

#include "weft/core/device_mesh.h"
#include "weft/overlap/fused_matmul.h"

namespace weft {

/// Matmuls that overlap with a collective, as in fused_matmul.h, on plain tensors, over the group of one mesh dim or
/// several. They call the operators weft::all_gather_matmul and weft::matmul_reduce_scatter, so that gradients flow:
/// each is the other's derivative. Every rank of the group must ask for the same gradients.
///
///   auto [hidden, gathered] = all_gather_matmul(x, {w1, w3}, mesh, {mesh.dim("tp")}, {.dim = 1, .chunks = 4});
///   auto y = matmul_reduce_scatter({hidden[0]}, {w2}, mesh, {mesh.dim("tp")}, {.dim = 1, .chunks = 4});

GatheredMatmul all_gather_matmul(
    const at::Tensor& shard,
    at::TensorList others,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    const GatherMatmulOptions& options = {},
    Biases biases = {});

at::Tensor matmul_reduce_scatter(
    at::TensorList inputs,
    at::TensorList others,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    const MatmulScatterOptions& options = {},
    const at::Tensor& bias = {});

/// Into how many chunks to divide a member's shard if no rates are known: of some 256 KiB each, and eight at most. The
/// bytes are those of the largest shard, which all members know.
int64_t usual_chunks(int64_t shard_bytes);

} // namespace weft
