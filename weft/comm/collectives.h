#pragma once

#include "weft/comm/pending.h"
#include "weft/core/device_mesh.h"

#include <optional>

namespace weft {

/// Collectives on plain tensors over one mesh dim or several as one ("fused"). Each starts at once and gives a tensor
/// that is waited for when it is read. Members of a group are counted row-major in mesh order.
///
///   auto whole = all_gather(part, mesh, {mesh.dim("tp")}, /*dim=*/1);
///   ...
///   use(whole.wait());

/// Everybody's tensors, one after the other along `dim`. They may differ in size along `dim` only; then
/// `sizes` says how much each member has.
AsyncTensor all_gather(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    std::optional<c10::IntArrayRef> sizes = std::nullopt);

/// This member's piece, as torch.chunk cuts along `dim`, of the reduction of everybody's tensors.
AsyncTensor reduce_scatter(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    ReduceOp op);

AsyncTensor all_reduce(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, ReduceOp op);

/// Piece i along `split_dim`, as torch.chunk cuts, goes to member i; the pieces that arrive lie one after the other along
/// `concat_dim`. Where the members' sizes along `concat_dim` differ, `sizes` says how much each has.
AsyncTensor all_to_all(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t split_dim,
    int64_t concat_dim,
    std::optional<c10::IntArrayRef> sizes = std::nullopt);

/// The root's tensor, on every member; the others give one of the same shape, whose values are not read.
AsyncTensor broadcast(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t root);

/// This member's piece, as torch.chunk cuts along `dim`, of the root's tensor; the others give one of the same shape.
AsyncTensor scatter(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    int64_t root);

/// Sends to a member; the tensor must not change until the Pending is done.
Pending send(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t to);
/// A tensor of the shape and dtype of `like` from a member.
AsyncTensor recv(const at::Tensor& like, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t from);

/// Returns when every member has called it.
void barrier(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

} // namespace weft
