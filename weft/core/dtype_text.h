#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

namespace weft {

/// "f32", "bf16", "i64", "bool", "c64", ...: the dtype in the notation.
std::string_view dtype_text(c10::ScalarType dtype);

/// The inverse of dtype_text; the error for an unknown text lists the known ones.
c10::ScalarType parse_dtype(std::string_view text);

} // namespace weft
