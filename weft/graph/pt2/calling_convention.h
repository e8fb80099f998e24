#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/json_field.h"

namespace weft::graph {

/// How a file states that its program is called, and the other data that is needed to write the file again, as the JSON
/// text that Program::calling_convention keeps.
std::string read_calling_convention(const JsonField& root, const Program& program);

/// The JSON to write for the program as it is now. If the program was not read from a file, or if its inputs or outputs
/// have changed, it takes flat inputs and returns flat outputs.
nlohmann::json calling_convention_of(const Program& program);

} // namespace weft::graph
