#include "weft/files/crc32c.h"

#include "weft/files/castagnoli.h"
#include "weft/files/crc32c_ways.h"

namespace weft {

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  static const auto advance = crc32c_ways().front().advance;
  return ~advance(~before, bytes.data(), bytes.data() + bytes.size());
}

uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_size) {
  // Of nothing, the usual case, the shift need not be computed, which takes a thousand instructions.
  return first == 0 ? second : castagnoli::product_of(castagnoli::shift_by(second_size), first) ^ second;
}

} // namespace weft
