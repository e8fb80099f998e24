#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <concepts>
#include <optional>
#include <vector>

namespace weft {

struct FromLocalOptions {
  /// Compare shapes and dtypes over the mesh, and take replicated values from the first rank of each replicated mesh dim.
  bool run_check = false;
  /// The global shape and strides, given together; needed where the parts are not equal in size. The local tensor is laid
  /// out in the order of these strides.
  std::optional<std::vector<int64_t>> shape = std::nullopt;
  std::optional<std::vector<int64_t>> stride = std::nullopt;
  /// Where the gradient is to lie when the local tensor gets its part of it. By default as the forward placements say,
  /// and replicated where they are partial.
  std::optional<Layout> grad_placements = std::nullopt;
};

/// The distributed tensor whose part on this rank is `local`, with which it shares its memory where that is laid out as
/// it must be: contiguous, unless strides are given. Without a shape the parts are taken to be equal in size.
///
///   from_local(mine, mesh, {Shard(0)});
///   from_local(mine, mesh, {Shard(0)}, {.shape = {{5, 3}}, .stride = {{3, 1}}});
///
/// A term of P(avg) gets its share of the gradient. Terms of P(max), P(min) and P(product) cannot require one. On a rank
/// that is not in the mesh the result holds an empty local tensor. A local tensor on another type of device than the
/// mesh's is copied there, but for one without data (meta).
at::Tensor from_local(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options = {});

/// Shape and stride of a contiguous tensor, whose parts may differ in size.
///
///   from_local(mine, mesh, {Shard(0)}, parts_of({5, 3}));
FromLocalOptions parts_of(c10::IntArrayRef shape);

/// As from_local with parts_of(shape).
template <std::convertible_to<c10::IntArrayRef> Shape>
at::Tensor from_local(const at::Tensor& local, const DeviceMesh& mesh, const Layout& layout, const Shape& shape) {
  return from_local(local, mesh, layout, parts_of(shape));
}

/// A plain gradient on meta as a replicated one, and any other as it is. Where a derivative formula makes a plain tensor on
/// meta, the dispatcher takes the plain tensor's kernel before that of a distributed one on meta.
at::Tensor distributed_on_meta(const at::Tensor& gradient, const DeviceMesh& mesh);

} // namespace weft
