#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft::graph {

/// Redispatches a call, as redispatchBoxed does. If its tensors are on meta and the operator has no meta kernel, which
/// is frequent for operators in C++, runs it on zeros on the CPU and moves the results to meta: shapes, strides and
/// dtypes are right. Raises if the operator fails there too, or if its results would depend on values.
void run_without_data(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

} // namespace weft::graph
