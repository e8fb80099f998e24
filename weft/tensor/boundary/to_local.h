#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct ToLocalOptions {
  /// Where the gradient of the local tensor will lie. By default as the tensor, and replicated where that is partial:
  /// then every rank must come to the same gradient. Where each has a term of it, say P(sum).
  std::optional<Layout> grad_placements = std::nullopt;
};

/// This rank's part, which shares its memory with the tensor; waited for where it is still on its way.
///
///   auto mine = to_local(t);
///   auto mine = to_local(t, {.grad_placements = Layout{Partial()}});
///
/// The gradient of a local term of P(avg) counts for the average as often as there are terms. That of P(max), P(min) and
/// P(product) is not known: backward raises.
at::Tensor to_local(const at::Tensor& tensor, const ToLocalOptions& options = {});

/// The whole tensor, on every rank: its replicated form's local tensor. `grad_placements` are those of the whole.
at::Tensor full_tensor(const at::Tensor& tensor, const ToLocalOptions& options = {});

} // namespace weft
