#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// Whether collectives overlap with the matmuls next to them: where the rates say that it pays, never, or wherever they can.
enum class OverlapMode : uint8_t { Auto, Off, Force };

/// "auto", "off", "force"
std::string_view to_string(OverlapMode mode);
OverlapMode parse_overlap_mode(std::string_view text);

} // namespace weft
