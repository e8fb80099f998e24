#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Communication inside of an operator's kernel, below autograd, which no prepared call does. As with prepared calls,
/// an ExplainLog records it, and in a StrictScope it raises instead.

/// Redistributes the tensor to `layout`.
at::Tensor move_implicitly(const char* op, const at::Tensor& tensor, const Layout& layout);

/// Reduces a plain tensor over the ranks along these mesh dims.
at::Tensor reduce_implicitly(
    const char* op,
    const at::Tensor& local,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    ReduceOp reduction);

} // namespace weft
