#pragma once

#include "weft/propagation/operator_schema.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/stack.h>

namespace weft {

/// Runs a call on a rank that is not in the mesh of its operands: the results have the specs that they have on the ranks
/// of the mesh, and hold an empty local tensor. Raises if a result is a number, or if its sizes depend on values.
///
///   x {S(0)} on mesh(a=2; ranks=0,2)   x.sum() on rank 1 is f32[] {P(sum)}, and its to_local() is 0
void run_outside(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    const PreparedCall& call,
    torch::jit::Stack& stack);

} // namespace weft
