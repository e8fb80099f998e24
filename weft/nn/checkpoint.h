#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft::nn {

/// Calls `forward` without keeping what it computes on the way; backward calls it again. Memory for time, as by Python's
/// torch.utils.checkpoint, which C++ has not: tensors may be plain or distributed.
///
///   x = checkpoint([&](const at::Tensor& input) { return block->forward(input); }, x);
///
/// The second call draws the random numbers of the first, of distributed and of plain CPU tensors, and has its autocast. The
/// input must require a gradient, or nothing inside gets one; parameters that `forward` uses get theirs when its part of
/// backward ends.
at::Tensor checkpoint(const std::function<at::Tensor(const at::Tensor&)>& forward, const at::Tensor& input);

} // namespace weft::nn
