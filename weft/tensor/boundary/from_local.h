#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <concepts>
#include <optional>
#include <vector>

namespace weft {

struct FromLocalOptions {
  /// Compare shapes and dtypes over the mesh, and take replicated values from the first rank of each replicated mesh
  /// dim.
  bool run_check = false;
  /// The global shape and strides, given together; needed where the local tensors differ in size. The local tensor gets
  /// strides in the order of these.
  std::optional<std::vector<int64_t>> shape = std::nullopt;
  std::optional<std::vector<int64_t>> stride = std::nullopt;
  /// The layout to which the gradient is redistributed before the local tensor receives its local gradient. By default
  /// the forward placements, with R in the place of P.
  std::optional<Layout> grad_placements = std::nullopt;
};

/// The distributed tensor whose local tensor on this rank is `local`. Without a shape all local tensors must have the
/// same size, and the dims of the tensor have the order in memory that those of `local` have (channels last, say). They
/// share memory unless `local` has gaps, or elements that share memory, or another order than the given strides: then it
/// is copied.
///
///   from_local(mine, mesh, {Shard(0)});
///   from_local(mine, mesh, {Shard(0)}, {.shape = {{5, 3}}, .stride = {{3, 1}}});
///
/// A term of P(avg) gets the gradient divided by the number of terms. Terms of P(max), P(min) and P(product) cannot
/// require a gradient. On a rank that is not in the mesh the result holds an empty local tensor. A local tensor on
/// another type of device than the mesh's is copied to the mesh's device, unless it has no data (meta).
at::Tensor from_local(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options = {});

/// The options for a contiguous tensor of this global shape, whose local tensors may differ in size.
///
///   from_local(mine, mesh, {Shard(0)}, with_global_shape({5, 3}));
FromLocalOptions with_global_shape(c10::IntArrayRef shape);

/// As from_local with with_global_shape(shape).
template <std::convertible_to<c10::IntArrayRef> Shape>
at::Tensor from_local(const at::Tensor& local, const DeviceMesh& mesh, const Layout& layout, const Shape& shape) {
  return from_local(local, mesh, layout, with_global_shape(shape));
}

/// The tensor like `like` whose local tensor on this rank is `local`, which autograd does not record. Unlike from_local
/// it checks nothing: `local` is a dense tensor on the mesh's device, with the shape and dtype that the spec gives it.
at::Tensor wrap_local(const at::Tensor& local, const DTensorImpl& like);

/// Makes a plain gradient on meta a replicated one; returns any other gradient as it is. Where an operator of a
/// derivative formula gets a plain and a distributed tensor on meta, the dispatcher chooses the plain kernel, which
/// returns a plain tensor.
at::Tensor distributed_on_meta(const at::Tensor& gradient, const DeviceMesh& mesh);

} // namespace weft
