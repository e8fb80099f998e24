#pragma once

#include "weft/comm/pending.h"
#include "weft/core/device_mesh.h"

#include <optional>

namespace weft {

/// Collectives on plain tensors over one mesh dim, or over several mesh dims as one group. Each call starts the
/// collective and returns at once; wait() returns the result. Members of a group are numbered row-major in mesh order.
///
///   auto full = all_gather(shard, mesh, {mesh.dim("tp")}, /*dim=*/1);
///   ...
///   use(full.wait());

/// The members' tensors, concatenated along `dim` in member order. They may differ in size along `dim` only; `sizes`
/// then lists the size of every member.
AsyncTensor all_gather(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    std::optional<c10::IntArrayRef> sizes = std::nullopt);

/// This member's chunk, as torch.chunk divides along `dim`, of the reduction of the members' tensors.
AsyncTensor reduce_scatter(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    ReduceOp op);

AsyncTensor all_reduce(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, ReduceOp op);

/// Chunk i along `split_dim`, as torch.chunk divides, goes to member i; the chunks that arrive are concatenated along
/// `concat_dim`. If the members' sizes along `concat_dim` differ, `sizes` lists the size of every member.
AsyncTensor all_to_all(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t split_dim,
    int64_t concat_dim,
    std::optional<c10::IntArrayRef> sizes = std::nullopt);

/// The root's tensor, on every member. The other members pass a tensor of the same shape, whose values are not read.
AsyncTensor broadcast(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t root);

/// This member's chunk, as torch.chunk divides along `dim`, of the root's tensor. The other members pass a tensor of
/// the same shape.
AsyncTensor scatter(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    int64_t root);

/// Sends to another member; the tensor must not change until the Pending is done.
Pending send(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t to);
/// Receives a tensor of the shape and dtype of `like` from another member.
AsyncTensor recv(const at::Tensor& like, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t from);

/// Returns when every member has called it.
void barrier(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

} // namespace weft
