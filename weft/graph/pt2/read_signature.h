#pragma once

#include "weft/graph/pt2/read_arguments.h"

namespace weft::graph {

/// The graph's inputs, and what each of them is.
void read_inputs(const JsonField& graph_module, Program& program, NamedValues& values);
/// What the graph gives, and what each of that is.
void read_outputs(const JsonField& graph_module, Program& program, const NamedValues& values);

} // namespace weft::graph
