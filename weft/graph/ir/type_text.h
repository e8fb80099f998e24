#pragma once

#include "weft/core/text_cursor.h"
#include "weft/graph/ir/type.h"

namespace weft::graph {

/// "f32[4,8|1,4] cuda:0 grad", "int(s77 + 1)", "bool". Strides are printed if the tensor is not contiguous, a device if
/// it is not the CPU.
std::string to_string(const Type& type);
Type parse_type(TextCursor& cursor);

} // namespace weft::graph
