#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <algorithm>
#include <string_view>

namespace weft {

/// Calls fn(number, begin, end) for each chunk that the range from `begin` to `end` of the file has bytes of, with the range of these.
template <class Fn>
void for_each_chunk(const ChunkChecksums& chunks, uint64_t begin, uint64_t end, const Fn& fn) {
  while (begin < end) {
    const auto number = (begin - chunks.begin) / chunks.chunk_bytes;
    const auto next = std::min(end, chunks.begin + (number + 1) * chunks.chunk_bytes);
    fn(number, begin, next);
    begin = next;
  }
}

/// Continues the checksums of a range of the file, one for each chunk that it has bytes of, by bytes that follow: those at `begin`.
void add_checksums(
    const ChunkChecksums& chunks,
    uint64_t range_begin,
    uint64_t begin,
    std::string_view bytes,
    std::vector<uint32_t>& checksums);

} // namespace weft
