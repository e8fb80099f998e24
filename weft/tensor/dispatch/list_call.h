#pragma once

#include "weft/propagation/operator_schema.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// Whether a call that writes to lists (foreach, fused optimizers) would read an operand too early. Such operators work on one
/// element after the other, but operands that are redistributed or copied are read before the first of them: too early where
/// an earlier element writes to the same memory.
///
///   _foreach_copy_([a, b], [b, a])   with a {S(0)} and b {S(1)}: the second element reads what the first has written
bool reads_too_early(const OperatorSchema& schema, const PreparedCall& call, const OperandRefs& operands);

/// Replaces the call on the stack, which returns nothing, by one call per element with lists of one.
void run_by_element(const c10::OperatorHandle& op, const OperatorSchema& schema, torch::jit::Stack& stack);

} // namespace weft
