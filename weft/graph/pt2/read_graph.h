#pragma once

#include "weft/graph/pt2/read_arguments.h"

namespace weft::graph {

/// The type that a file's graph states for the value that an argument names: {"as_tensor": {"name": "x"}}. Raises if
/// the argument does not name a value.
struct NamedType {
  JsonField name;
  Type type;
};
NamedType read_named_type(const JsonField& graph, const JsonField& argument, Program& program);

/// Adds the nodes of a file's graph to the program's graph. A region without gradients is inlined.
void read_nodes(const JsonField& graph, Program& program, NamedValues& values);

} // namespace weft::graph
