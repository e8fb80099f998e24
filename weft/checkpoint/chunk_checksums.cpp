#include "weft/checkpoint/chunk_checksums.h"

#include "weft/files/crc32c.h"

namespace weft {

void add_checksums(
    const ChunkChecksums& chunks,
    uint64_t range_begin,
    uint64_t begin,
    std::string_view bytes,
    std::vector<uint32_t>& checksums) {
  const auto first = (range_begin - chunks.begin) / chunks.chunk_bytes;
  for_each_chunk(chunks, begin, begin + bytes.size(), [&](uint64_t number, uint64_t from, uint64_t to) {
    checksums.resize(number - first + 1);
    checksums.back() = crc32c(bytes.substr(from - begin, to - from), checksums.back());
  });
}

} // namespace weft
