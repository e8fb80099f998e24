#pragma once

#include "weft/graph/pt2/write_types.h"
#include "weft/graph/pt2/written_names.h"

namespace weft::graph {

/// The graph of a program as files state it.
nlohmann::json write_graph(const Program& program, const WrittenNames& names, TypeWriter& types);
/// What its inputs and outputs are.
nlohmann::json write_signature(const Program& program, const WrittenNames& names);

} // namespace weft::graph
