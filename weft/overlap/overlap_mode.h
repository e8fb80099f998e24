#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// Whether collectives overlap with the matmuls next to them: if it pays by the rates, never, or wherever it is
/// possible.
enum class OverlapMode : uint8_t { Auto, Off, Force };

/// "auto", "off", "force"
std::string_view to_string(OverlapMode mode);
OverlapMode parse_overlap_mode(std::string_view text);

} // namespace weft
