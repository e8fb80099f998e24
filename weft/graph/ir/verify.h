#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// Raises where the graph is not one that can be run, with the rule that is broken and the node as it is printed:
/// every value is made once, under a name of its own, before it is used, and knows its uses; arguments and outputs are
/// what the operator's schema says; a layout is one of a tensor of this rank; a step begins and ends with the layouts of
/// its operand and its output and changes nothing else; the return is the last node. Linear in the size of the graph.
///
/// As in Python, a number may stand where the schema wants a tensor, and an integer where it wants a float.
void verify(const Graph& graph);

/// The graph; and inputs and outputs are those of the graph, mutations are of inputs that there are, layouts have a
/// placement per dim of the program's mesh, and sizes consist of symbols that the program declares.
void verify(const Program& program);

} // namespace weft::graph
