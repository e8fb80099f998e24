#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A copy of the program with its own graph. Values keep their names, and both programs share the tensors.
Program clone(const Program& program);

} // namespace weft::graph
