#include "weft/checkpoint/stored_tensors.h"

#include <c10/util/accumulate.h>

#include <algorithm>

namespace weft {

BlockIndex block_of(
    c10::IntArrayRef sizes,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate) {
  BlockIndex index;
  for (size_t d = 0; d < sizes.size(); ++d) {
    index.push_back(local_runs(sizes[d], static_cast<int64_t>(d), layout, mesh_shape, coordinate));
  }
  return index;
}

BlockIndex full_block(c10::IntArrayRef sizes) {
  BlockIndex index;
  for (const auto size : sizes) {
    index.push_back({Run{0, size}});
  }
  return index;
}

c10::DimVector block_shape(const BlockIndex& index) {
  c10::DimVector shape;
  for (const auto& runs : index) {
    int64_t length = 0;
    for (const auto& run : runs) {
      length += run.length;
    }
    shape.push_back(length);
  }
  return shape;
}

int64_t block_numel(const BlockIndex& index) {
  const auto shape = block_shape(index);
  // A product of the other dims may be more than 64 bits have.
  return std::find(shape.begin(), shape.end(), 0) != shape.end() ? 0 : c10::multiply_integers(shape);
}

uint64_t chunk_bytes_of(uint64_t bytes) {
  constexpr uint64_t kMostChunks = 128;
  uint64_t chunk_bytes = 64 << 10;
  while (chunk_bytes * kMostChunks < bytes) {
    chunk_bytes *= 2;
  }
  return chunk_bytes;
}

} // namespace weft
