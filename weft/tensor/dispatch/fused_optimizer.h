#pragma once

#include "weft/propagation/operator_schema.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft {

/// Runs a fused optimizer (_fused_adamw_ and its like) on the local tensors, plain parameters among the distributed ones too, in one
/// call. Each parameter is updated by itself and element by element, so that nothing has to be decided where all tensors of a
/// parameter have one spec, and hold values, not terms:
///
///   _fused_adamw_([plain, w {S(0)}], [grad, grad {S(0)}], ...)   one call on [plain, local of w], [grad, local of grad], ...
///
/// Returns false, with the stack as it was, where that is not so.
bool run_fused_optimizer(const c10::OperatorHandle& op, const OperatorSchema& schema, torch::jit::Stack& stack);

} // namespace weft
