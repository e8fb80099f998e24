#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// A checksum as eight hexadecimal digits, and back; none for any other text.
///
///   checksum_text(0xe3069283)     // "e3069283"
std::string checksum_text(uint32_t checksum);
std::optional<uint32_t> parse_checksum(std::string_view text);

} // namespace weft
