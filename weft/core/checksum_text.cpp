#include "weft/core/checksum_text.h"

#include <charconv>

namespace weft {

std::string checksum_text(uint32_t checksum) {
  std::string text(8, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, checksum >>= 4) {
    *digit = "0123456789abcdef"[checksum & 0xf];
  }
  return text;
}

std::optional<uint32_t> parse_checksum(std::string_view text) {
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return std::nullopt;
  }
  uint32_t checksum = 0;
  std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
  return checksum;
}

} // namespace weft
