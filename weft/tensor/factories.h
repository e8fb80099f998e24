#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct FactoryOptions {
  /// Without one, torch's choice: the default dtype, and for `full` the dtype of the value.
  std::optional<at::ScalarType> dtype = std::nullopt;
  bool requires_grad = false;
};

/// New distributed tensors of a global shape. Each rank makes its local tensor; nothing is communicated. On a rank that
/// is not in the mesh the local tensor is empty.
///
///   auto bias = zeros({8}, mesh, {Shard(0)}, {.dtype = at::kDouble, .requires_grad = true});
at::Tensor zeros(
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FactoryOptions& options = {});
at::Tensor ones(
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FactoryOptions& options = {});
at::Tensor empty(
    c10::IntArrayRef sizes,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FactoryOptions& options = {});
at::Tensor full(
    c10::IntArrayRef sizes,
    const at::Scalar& value,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FactoryOptions& options = {});

} // namespace weft
