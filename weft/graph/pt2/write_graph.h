#pragma once

#include "weft/graph/pt2/write_types.h"
#include "weft/graph/pt2/written_names.h"

namespace weft::graph {

/// The graph of a program in the form of files.
nlohmann::json write_graph(const Program& program, const WrittenNames& names, TypeWriter& types);
/// The signature of a program: the kinds of its inputs and outputs.
nlohmann::json write_signature(const Program& program, const WrittenNames& names);

} // namespace weft::graph
