#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

/// The checksum CRC-32C (Castagnoli) of a text that follows one with the checksum `before`. Computed faster
/// than memory is read, where the processor has vectors or an instruction for it (crc32c_ways.h).
///
///   crc32c("123456789")                    // 0xe3069283
///   crc32c("6789", crc32c("12345"))        // the same
uint32_t crc32c(std::string_view bytes, uint32_t before = 0);

/// The checksum of the concatenation of two texts, from the checksums of both.
uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_size);

} // namespace weft
