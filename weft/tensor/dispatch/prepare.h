#pragma once

#include "weft/propagation/operator_traits.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/prepared_call.h"

namespace weft {

/// Decides how a call is run, the same on every rank. Its only side effect is to create the groups of the compiled
/// plans. `numbers_keep_linear` is that of decide().
PreparedCall prepare(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<OperandRef> operands,
    bool numbers_keep_linear = true);

/// For a call whose outputs were not known before it ran: the output whose local tensor is `result`, the result at
/// `number`.
PreparedOutput output_of_result(
    const PreparedCall& call,
    const OperatorSchema::Return& ret,
    size_t number,
    const at::Tensor& result);

} // namespace weft
