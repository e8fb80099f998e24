#pragma once

#include "weft/graph/pt2/read_arguments.h"

namespace weft::graph {

/// What a file's graph says of a value that an argument names: {"as_tensor": {"name": "x"}}. Raises where the argument
/// names none.
struct NamedType {
  JsonField name;
  Type type;
};
NamedType read_named_type(const JsonField& graph, const JsonField& argument, Program& program);

/// Adds the nodes of a file's graph to the program's. A region without gradients becomes part of what is around it.
void read_nodes(const JsonField& graph, Program& program, NamedValues& values);

} // namespace weft::graph
