#pragma once

#include "weft/propagation/operator_schema.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// Runs a prepared call on this rank: the stack's distributed tensors are replaced by their local ones, moved where the
/// call says so, and the local results by distributed tensors.
void run_local_call(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    PreparedCall& call,
    torch::jit::Stack* stack,
    const OperandRefs& operands);

/// The local result as a distributed tensor; `base` is what it is a view of, if it is one.
at::Tensor wrap_output(at::Tensor&& local, const PreparedOutput& output, const DTensorImpl* base);

/// Counts a write to each of the distributed tensors of a list. Autograd sees writes to tensors; those to lists are made known
/// to it here, where torch does so: not by fused optimizers.
void count_writes(at::TensorList written, bool tells_autograd = true);

} // namespace weft
