#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

/// Local tensors have their dims in memory in the order of the global tensor's, so that a channels-last or transposed
/// tensor is one on every rank.

/// The dims in the order of their strides, the largest first. The position of a dim of one element does not matter.
///
///   dims_by_stride({2, 3, 4}, {1, 8, 2})   // {1, 2, 0}
std::vector<int64_t> dims_by_stride(c10::IntArrayRef sizes, c10::IntArrayRef strides);

/// The strides of a tensor without gaps whose dims are in this order in memory.
c10::DimVector dense_strides(c10::IntArrayRef sizes, const std::vector<int64_t>& order);

/// Ignores the strides that no element's address depends on: those of dims of one element, and all of an empty tensor.
bool same_strides(c10::IntArrayRef sizes, c10::IntArrayRef a, c10::IntArrayRef b);

/// The dims of a tensor in the order in which they are in memory; those of a contiguous tensor if it has gaps, or elements
/// that share memory.
std::vector<int64_t> order_in_memory(const TensorSpec& spec);

/// The dense strides of a tensor of `sizes` whose dims are ordered as those of `like`, which has other sizes; contiguous
/// ones if `like` has gaps, or elements that share memory.
c10::DimVector strides_as_in(const at::Tensor& like, c10::IntArrayRef sizes);

/// The local tensor with strides in the order of the spec's; a copy if it has others.
at::Tensor in_stride_order(at::Tensor local, const TensorSpec& spec);

} // namespace weft
