#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The operator of a node that stands for a call which passes do not know: of a Python function, a higher-order operator
/// or a kernel of another compiler. It may write to each of its tensors and return them, so that no pass moves it, erases
/// it, or moves a use of its tensors past it.
///
///   %y: f32[4] = weft::unknown_call([%x], [%s0])
c10::OperatorHandle unknown_call();

} // namespace weft::graph
