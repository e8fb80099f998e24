#pragma once

#include "weft/graph/ir/program.h"

#include <string_view>

namespace weft::graph {

/// The program that to_string (print.h) wrote; raises with the line and the column where the text is none. Empty lines and
/// those that begin with # are skipped, and spaces do not count. Whether the program is a valid one is for verify to say.
///
///   auto program = parse_program(R"(
///     program
///     input %x: f32[4,8] = user
///       %relu: f32[4,8] = aten::relu(%x)
///     output %relu = user)");
Program parse_program(std::string_view text);

} // namespace weft::graph
