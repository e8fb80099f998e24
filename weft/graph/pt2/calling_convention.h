#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/json_field.h"

namespace weft::graph {

/// What a file says of how the program is called, and what else it needs to be written again, as the JSON text that
/// Program::calling_convention keeps.
std::string read_calling_convention(const JsonField& root, const Program& program);

/// What to write of it for the program as it is now. Where the program was not read from a file, or has other inputs or
/// outputs now, it is called with its inputs one by one and gives its outputs one by one.
nlohmann::json calling_convention_of(const Program& program);

} // namespace weft::graph
