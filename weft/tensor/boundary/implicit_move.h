#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Communication that an operator is made of, below autograd, where no prepared call does it. As with those, it is
/// recorded for an ExplainLog, and in a StrictScope it raises instead.

/// The tensor under another layout.
at::Tensor move_implicitly(const char* op, const at::Tensor& tensor, const Layout& layout);

/// A plain tensor, reduced over the ranks along these mesh dims.
at::Tensor reduce_implicitly(
    const char* op,
    const at::Tensor& local,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    ReduceOp reduction);

} // namespace weft
