#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct ToLocalOptions {
  /// The layout of the gradient that the local gradients of all ranks form. By default the tensor's, with R in the
  /// place of P: where it is R, every rank must compute the same gradient. Give P(sum) if each rank computes a term of
  /// it.
  std::optional<Layout> grad_placements = std::nullopt;
};

/// This rank's local tensor, which shares memory with the tensor. Waits if a collective still writes it.
///
///   auto mine = to_local(t);
///   auto mine = to_local(t, {.grad_placements = Layout{Partial()}});
///
/// The gradient of a local term of P(avg) is multiplied by the number of terms to give the gradient of the average. For
/// P(max), P(min) and P(product) the gradient is not defined: backward raises.
at::Tensor to_local(const at::Tensor& tensor, const ToLocalOptions& options = {});

/// A tensor that shares memory with `local`, which shares memory with the local tensor of `impl`. Writes to it count as
/// writes to the distributed tensor.
at::Tensor counting_writes(DTensorImpl& impl, const at::Tensor& local);
/// As above, for the local tensor itself. The result is kept with the distributed tensor, because each step of a training asks for
/// that of a parameter again. Call it with Python's lock only.
const at::Tensor& counting_local(DTensorImpl& impl);

/// The global tensor, on every rank: redistributes to R and returns the local tensor. `grad_placements` are those of
/// the replicated tensor.
at::Tensor full_tensor(const at::Tensor& tensor, const ToLocalOptions& options = {});

} // namespace weft
