#pragma once

#include <cstdint>
#include <vector>

namespace weft {

/// A way to compute the checksum of weft/files/crc32c.h: the state after the bytes from `at` to `end`, from the state before them. A
/// checksum is the complement of a state.
struct Crc32cWay {
  const char* name;
  uint32_t (*advance)(uint32_t state, const char* at, const char* end);
};

/// The ways that this processor has, the fastest one first: vectors that are multiplied without carries, the instruction for this
/// checksum, and a table, which is the last one everywhere.
std::vector<Crc32cWay> crc32c_ways();

} // namespace weft
