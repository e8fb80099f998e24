#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// Raises if the graph cannot be run, with the violated rule and the printed node: every value is computed once, under
/// a unique name, before it is used, and lists its uses; arguments and outputs match the operator's schema; a layout
/// fits its tensor's ndim; a step begins and ends with the layouts of its operand and its output and changes nothing
/// else; the return is the last node. Linear in the size of the graph.
///
/// As in Python, a number is accepted for a tensor, and an integer for a float.
void verify(const Graph& graph);

/// Verifies the graph and in addition: the program's inputs and outputs are those of the graph, mutations refer to
/// existing inputs, layouts have a placement per dim of the program's mesh, and sizes use only symbols that the program
/// declares.
void verify(const Program& program);

} // namespace weft::graph
