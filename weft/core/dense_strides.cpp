#include "weft/core/dense_strides.h"

#include <algorithm>

namespace weft {

c10::DimVector dense_strides(c10::IntArrayRef sizes) {
  c10::DimVector strides(sizes.size(), 1);
  for (auto d = static_cast<int64_t>(sizes.size()) - 2; d >= 0; --d) {
    // Without a sign, because the strides of a tensor without elements may need more than 64 bits.
    const auto size = static_cast<uint64_t>(std::max<int64_t>(sizes[d + 1], 1));
    strides[d] = static_cast<int64_t>(static_cast<uint64_t>(strides[d + 1]) * size);
  }
  return strides;
}

} // namespace weft
