#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft::nn {

/// Calls `forward` without keeping its intermediate results; backward calls it again. This trades time for memory as
/// Python's torch.utils.checkpoint does, which C++ lacks. Tensors may be plain or distributed.
///
///   x = checkpoint([&](const at::Tensor& input) { return block->forward(input); }, x);
///
/// The second call draws the same random numbers as the first, for distributed and plain CPU tensors, and uses the same
/// autocast. The input must require a gradient, otherwise nothing inside gets one. Parameters that `forward` uses get
/// their gradients when backward through `forward` ends.
at::Tensor checkpoint(const std::function<at::Tensor(const at::Tensor&)>& forward, const at::Tensor& input);

} // namespace weft::nn
