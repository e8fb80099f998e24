#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Communication inside of an operator's kernel, below autograd, which no prepared call does. As with prepared calls,
/// an ExplainLog records it, and in a StrictScope it raises instead.

/// Whether what this thread does with the local tensor must be done by operators, because it is recorded: by a compiler that traces, or
/// by a LocalRecorder. Such a recording runs again on other values, which must not be read now.
bool is_recorded_by_operators(const at::Tensor& local);

/// Redistributes the tensor to `layout`.
at::Tensor move_implicitly(const char* op, const at::Tensor& tensor, const Layout& layout);

/// Reduces a plain tensor over the ranks along these mesh dims.
at::Tensor reduce_implicitly(
    const char* op,
    const at::Tensor& local,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    ReduceOp reduction);

/// Exchanges slices of plain tensors with the ranks along these mesh dims, of which the caller has told the scopes: sends[i] goes to
/// member i and recvs[i], which may be a view, takes what comes from it. Undefined ones are empty. `like` is any tensor of their kind.
void exchange_slices(
    const char* op,
    const at::Tensor& like,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    const std::vector<at::Tensor>& sends,
    const std::vector<at::Tensor>& recvs);

} // namespace weft
