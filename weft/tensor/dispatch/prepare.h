#pragma once

#include "weft/propagation/operator_traits.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/prepared_call.h"

namespace weft {

/// Decides how a call is run. Pure but for the compiled plans, whose groups are made here: the same on every rank.
PreparedCall prepare(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<OperandRef> operands);

/// For a call whose outputs could not be told beforehand: what local result number `number` is a part of.
PreparedOutput output_of_result(
    const PreparedCall& call,
    const OperatorSchema::Return& ret,
    size_t number,
    const at::Tensor& result);

} // namespace weft
