#pragma once

#include <cstdint>
#include <string_view>

namespace weft::graph {

/// The checksum of records in zip files. All threads of at::parallel_for read a large text.
uint32_t crc32(std::string_view bytes);

/// The checksum of the concatenation of two texts, from the checksums of both.
uint32_t joined_crc32(uint32_t first, uint32_t second, uint64_t second_size);

} // namespace weft::graph
