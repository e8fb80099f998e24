#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft::graph {

/// Goes on with a call, as redispatchBoxed does. Where its tensors are on meta and the operator has no kernel for that, as
/// few in C++ have, it is run on zeros on the CPU, and what it gives is put on meta: shapes, strides and dtypes are right.
/// Raises where the operator fails there too, and where what it gives would depend on values.
void run_without_data(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

} // namespace weft::graph
