#pragma once

#include "weft/propagation/operator_traits.h"
#include "weft/tensor/impl/operand.h"

#include <ATen/core/stack.h>

namespace weft {

/// Runs a call that mixes distributed tensors with plain ones that do not count as replicated, where it says without doubt what
/// every rank computes, and raises otherwise:
///   lists (foreach, fused optimizers) whose elements are plain or distributed, each for itself;
///   a plain tensor that is changed in place by distributed numbers, of which every rank uses the values.
///
///   _foreach_add_([plain, distributed], [plain, distributed])   two calls, of which the first is on plain tensors
///   plain.mul_(number {R})   as clip_grad_norm_ does
void run_mixed(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    torch::jit::Stack& stack,
    const OperandRefs& operands);

} // namespace weft
