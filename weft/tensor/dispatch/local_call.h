#pragma once

#include "weft/propagation/operator_schema.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// Runs a prepared call on this rank: replaces the distributed tensors on the stack by their local tensors,
/// redistributed where the call says so, runs the operator, and wraps the local results in distributed tensors.
void run_local_call(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    PreparedCall& call,
    torch::jit::Stack* stack,
    const OperandRefs& operands);

/// Gives a local result that has memory of its own the strides of the output's spec.
void arrange(at::Tensor& local, const PreparedOutput& output);

/// The local result as a distributed tensor; `base` is the tensor that it is a view of, if it is a view.
C10_ALWAYS_INLINE at::Tensor wrap_output(at::Tensor&& local, const PreparedOutput& output, const DTensorImpl* base) {
  if (C10_UNLIKELY(!local.defined())) {
    return {};
  }
  // A view that had to be copied also gets strides in the order of the spec's, because `reshape` decides by the spec's
  // strides whether it can return a view.
  const bool has_own_memory = !output.is_view || output.is_copy;
  if (has_own_memory && C10_UNLIKELY(!output.contiguous || !local.is_contiguous())) {
    arrange(local, output);
  }
  return output.is_view ? make_view_like(*output.like, std::move(local), *base, output.offset, output.is_copy)
                        : make_dtensor_like(*output.like, std::move(local));
}

/// Counts a write to each distributed tensor of a list. Autograd's kernels bump the version of a tensor argument that
/// is written to, but not of tensors in lists: with `tells_autograd` this function does it. Torch does not for fused
/// optimizers.
void count_writes(at::TensorList written, bool tells_autograd = true);

} // namespace weft
