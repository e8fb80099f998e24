#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace weft {

/// as_strided on a distributed tensor, as other views: autograd uses it to find a view of a tensor again after either was
/// changed in place. What is no combination of slices, selections, permutations, joined and split dims (windows that
/// overlap) is taken of the whole tensor, which is gathered for it; what reaches beyond the tensor's elements raises.
at::Tensor as_strided(
    const at::Tensor& self,
    c10::IntArrayRef sizes,
    c10::IntArrayRef strides,
    std::optional<int64_t> storage_offset);

void register_as_strided(torch::Library& library);

} // namespace weft
