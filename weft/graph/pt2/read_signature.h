#pragma once

#include "weft/graph/pt2/read_arguments.h"

namespace weft::graph {

/// Reads the graph's inputs and their kinds.
void read_inputs(const JsonField& graph_module, Program& program, NamedValues& values);
/// Reads the graph's outputs and their kinds.
void read_outputs(const JsonField& graph_module, Program& program, const NamedValues& values);

} // namespace weft::graph
