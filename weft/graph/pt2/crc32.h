#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::graph {

/// The checksum that zip files have of their records. Large texts are read by all threads of at::parallel_for.
uint32_t crc32(std::string_view bytes);

/// That of two texts, one behind the other, by those of each.
uint32_t joined_crc32(uint32_t first, uint32_t second, uint64_t second_size);

/// Eight hexadecimal digits.
std::string checksum_text(uint32_t checksum);

} // namespace weft::graph
