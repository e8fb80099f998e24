#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A program of its own that is the same: values have the same names, tensors are shared.
Program clone(const Program& program);

} // namespace weft::graph
