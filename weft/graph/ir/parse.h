#pragma once

#include "weft/graph/ir/program.h"

#include <string_view>

namespace weft::graph {

/// Parses the text that to_string (print.h) writes; raises with line and column if it does not parse. Empty lines and
/// lines that begin with # are skipped, and spaces do not matter. Does not verify the program.
///
///   auto program = parse_program(R"(
///     program
///     input %x: f32[4,8] = user
///       %relu: f32[4,8] = aten::relu(%x)
///     output %relu = user)");
Program parse_program(std::string_view text);

} // namespace weft::graph
