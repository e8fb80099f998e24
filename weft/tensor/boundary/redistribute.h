#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct RedistributeOptions {
  /// The tensor's own mesh; another one is not supported.
  std::optional<DeviceMesh> mesh = std::nullopt;
  /// Return at once: the result is waited for when its values are first read, and the tensor must not be changed before.
  bool async_op = false;
  /// Cast to this before the data moves; the result has this dtype.
  std::optional<at::ScalarType> forward_dtype = std::nullopt;
  /// Cast the gradient to this, instead of the tensor's dtype, before it moves back; it then is cast to the tensor's.
  std::optional<at::ScalarType> backward_dtype = std::nullopt;
};

/// The same tensor under another layout, by the cheapest collectives. Every rank of the mesh must call it.
///
///   redistribute(t, {Replicate()});
///   redistribute(t, {Shard(0), Replicate()}, {.forward_dtype = at::kBFloat16});
///
/// Where the layout stays, the result shares the tensor's memory and strides; otherwise it has memory of its own and is
/// contiguous. The gradient lies as the tensor, and is replicated where that is partial.
at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout, const RedistributeOptions& options = {});

} // namespace weft
