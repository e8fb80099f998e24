#include "weft/checkpoint/stored_tensors.h"

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

BlockIndex whole_block(c10::IntArrayRef sizes) {
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
  int64_t numel = 1;
  for (const auto length : block_shape(index)) {
    numel *= length;
  }
  return numel;
}

} // namespace weft
