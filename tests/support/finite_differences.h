#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft::testing {

/// Where a loss is computed: on every rank the same one, or on every rank its own term of it (the same term along mesh
/// dims that replicate the tensor).
enum class Loss : uint8_t { SameOnAllRanks, SumOverRanks };

/// Compares the gradient of `loss` for this rank's local tensor `x` (double, of layout `layout`), and the gradient of a
/// weighted sum of that gradient, with central differences. Elements are changed on one rank at a time, and together on
/// ranks that hold the same.
void check_derivatives(
    const std::function<at::Tensor(const at::Tensor& x)>& loss,
    const at::Tensor& x,
    const DeviceMesh& mesh,
    const Layout& layout,
    Loss where);

} // namespace weft::testing
