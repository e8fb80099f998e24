#include "weft/core/checksum_text.h"

#include <array>
#include <cstdio>

namespace weft {

std::string checksum_text(uint32_t checksum) {
  std::array<char, 9> text = {};
  std::snprintf(text.data(), text.size(), "%08x", checksum);
  return text.data();
}

std::optional<uint32_t> parse_checksum(std::string_view text) {
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(std::stoul(std::string(text), nullptr, 16));
}

} // namespace weft
