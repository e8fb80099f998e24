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

/// Whether the lists have several elements, with tensors on different meshes. An operator that works on each element by itself
/// runs them one after the other, as for an optimizer whose parameters are on several meshes.
bool on_several_meshes(const OperandRefs& operands);

/// Replaces the call on the stack, whose results are lists, by one call per element with lists of one.
void run_by_element(const c10::OperatorHandle& op, const OperatorSchema& schema, torch::jit::Stack& stack);

/// Replaces the call on the stack, which works on each element of its lists by itself, by one call for the plain elements and one for
/// those of each mesh. An optimizer of distributed and plain parameters makes two calls:
///
///   _foreach_add_([plain, a, b], [plain, c, d])   _foreach_add_([plain], [plain]) and _foreach_add_([a, b], [c, d])
///
/// Elements run one after the other instead where one group would read or write what another one writes, or where there is one group.
void run_by_group(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    const OperandRefs& operands,
    torch::jit::Stack& stack);

} // namespace weft
