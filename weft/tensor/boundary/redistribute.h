#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct RedistributeOptions {
  /// Another mesh of the same world; see redistribute_to_mesh.
  std::optional<DeviceMesh> mesh = std::nullopt;
  /// Returns before the collectives are done. The first read of the result waits for them; do not write to the tensor
  /// before.
  bool async_op = false;
  /// Cast to this dtype before the communication; the result has this dtype.
  std::optional<at::ScalarType> forward_dtype = std::nullopt;
  /// Cast the gradient to this dtype, instead of the tensor's, before its communication; afterwards to the tensor's
  /// dtype.
  std::optional<at::ScalarType> backward_dtype = std::nullopt;
};

/// The same global tensor in another layout, by the cheapest collectives. Every rank of the mesh must call it.
///
///   redistribute(t, {Replicate()});
///   redistribute(t, {Shard(0), Replicate()}, {.forward_dtype = at::kBFloat16});
///
/// The result shares the tensor's memory and strides where no local tensor changes: if the layout stays, or changes on
/// mesh dims of one rank only. Otherwise it has memory of its own, without gaps, in which its dims have the order of the
/// tensor's (channels last, say). The gradient gets the layout of gradient_layout().
at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout, const RedistributeOptions& options = {});

/// The layout to which a gradient is redistributed: that of its tensor, with R in the place of P, because every term of a
/// sum has the gradient of the sum. A gradient that is a sum or an average of terms over the same mesh dims as its tensor
/// stays one: adding terms to terms needs no reduction.
///
///   tensor {S(0), P(sum)}, gradient {R, S(0)}     ->   {S(0), R}
///   tensor {S(0), P(sum)}, gradient {R, P(sum)}   ->   {S(0), P(sum)}
Layout gradient_layout(const Layout& tensor, const Layout& gradient);

/// What redistribute returns if it shares the tensor's memory, detached from the autograd graph; undefined if it does
/// not.
at::Tensor alias_in(const at::Tensor& tensor, const Layout& layout);

} // namespace weft
