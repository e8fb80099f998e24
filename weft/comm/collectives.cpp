#include "weft/comm/collectives.h"

#include "weft/comm/chunk_views.h"
#include "weft/comm/communicator.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/WrapDimMinimal.h>

#include <numeric>

namespace weft {

namespace {

std::vector<at::Tensor> split_views(const at::Tensor& tensor, c10::IntArrayRef sizes, int64_t dim) {
  std::vector<at::Tensor> views;
  int64_t begin = 0;
  for (const auto size : sizes) {
    views.push_back(tensor.narrow(dim, begin, size));
    begin += size;
  }
  return views;
}

std::vector<int64_t> member_sizes(
    const char* where,
    const Group& group,
    std::optional<c10::IntArrayRef> sizes,
    int64_t own) {
  if (!sizes) {
    return std::vector<int64_t>(group.size(), own);
  }
  TORCH_CHECK_VALUE(
      static_cast<int64_t>(sizes->size()) == group.size() && (*sizes)[group.rank()] == own, "[", where,
      "] sizes must be ", group.size(), " numbers, that of member ", group.rank(), " being its own size ", own,
      ", but got ", *sizes, ".");
  return sizes->vec();
}

at::Tensor empty_with(const at::Tensor& like, int64_t dim, int64_t size) {
  auto sizes = like.sizes().vec();
  sizes[dim] = size;
  return at::empty(sizes, like.options());
}

int64_t sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

int64_t checked_member(const char* where, const Group& group, int64_t member) {
  TORCH_CHECK_INDEX(
      member >= 0 && member < group.size(), "[", where, "] a member of ", group.to_string(), " is required, in [0, ",
      group.size(), "), but got ", member, ".");
  return member;
}

std::shared_ptr<Group> group_of(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  return Communicator::of(mesh).group(mesh, mesh_dims);
}

/// The chunks of the input for each member, and an empty tensor for this member's own.
std::pair<std::vector<at::Tensor>, at::Tensor> chunks_and_own(
    const at::Tensor& input,
    const Group& group,
    int64_t dim) {
  auto chunks = chunk_views(input, group.size(), c10::maybe_wrap_dim(dim, input.dim()));
  auto own = at::empty(chunks[group.rank()].sizes(), input.options());
  return {std::move(chunks), std::move(own)};
}

} // namespace

AsyncTensor all_gather(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    std::optional<c10::IntArrayRef> sizes) {
  at::AutoDispatchBelowADInplaceOrView guard;
  dim = c10::maybe_wrap_dim(dim, input.dim());
  const auto group = group_of(mesh, mesh_dims);
  const auto each = member_sizes("all_gather", *group, sizes, input.size(dim));
  const auto output = empty_with(input, dim, sum(each));
  return {output, group->all_gather(input, split_views(output, each, dim))};
}

AsyncTensor reduce_scatter(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    ReduceOp op) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto group = group_of(mesh, mesh_dims);
  const auto [chunks, output] = chunks_and_own(input, *group, dim);
  return {output, group->reduce_scatter(chunks, output, op)};
}

AsyncTensor all_reduce(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, ReduceOp op) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto output = at::empty(input.sizes(), input.options());
  return {output, group_of(mesh, mesh_dims)->all_reduce(input, output, op)};
}

AsyncTensor all_to_all(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t split_dim,
    int64_t concat_dim,
    std::optional<c10::IntArrayRef> sizes) {
  at::AutoDispatchBelowADInplaceOrView guard;
  split_dim = c10::maybe_wrap_dim(split_dim, input.dim());
  concat_dim = c10::maybe_wrap_dim(concat_dim, input.dim());
  TORCH_CHECK_VALUE(
      split_dim != concat_dim, "[all_to_all] split_dim and concat_dim must differ, but got ", split_dim,
      " for both. To exchange chunks of one dim, view it as two dims.");
  const auto group = group_of(mesh, mesh_dims);
  const auto each = member_sizes("all_to_all", *group, sizes, input.size(concat_dim));
  const auto chunks = chunk_views(input, group->size(), split_dim);
  const auto output = empty_with(chunks[group->rank()], concat_dim, sum(each));
  return {output, group->all_to_all(chunks, split_views(output, each, concat_dim))};
}

AsyncTensor broadcast(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t root) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto group = group_of(mesh, mesh_dims);
  const bool is_root = group->rank() == checked_member("broadcast", *group, root);
  const auto output = is_root ? input.clone() : at::empty(input.sizes(), input.options());
  return {output, group->broadcast(output, root)};
}

AsyncTensor scatter(
    const at::Tensor& input,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    int64_t dim,
    int64_t root) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto group = group_of(mesh, mesh_dims);
  const auto [chunks, output] = chunks_and_own(input, *group, dim);
  return {output, group->scatter(chunks, output, checked_member("scatter", *group, root))};
}

Pending send(const at::Tensor& input, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t to) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto group = group_of(mesh, mesh_dims);
  TORCH_CHECK_VALUE(to != group->rank(), "[send] the receiver must be another member, but got this one, ", to, ".");
  return group->send(input, checked_member("send", *group, to));
}

AsyncTensor recv(const at::Tensor& like, const DeviceMesh& mesh, c10::IntArrayRef mesh_dims, int64_t from) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto group = group_of(mesh, mesh_dims);
  TORCH_CHECK_VALUE(from != group->rank(), "[recv] the sender must be another member, but got this one, ", from, ".");
  const auto output = at::empty(like.sizes(), like.options());
  return {output, group->recv(output, checked_member("recv", *group, from))};
}

void barrier(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  group_of(mesh, mesh_dims)->barrier().wait();
}

} // namespace weft
