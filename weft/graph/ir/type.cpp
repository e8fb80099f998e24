#include "weft/graph/ir/type.h"

namespace weft::graph {

Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  Size stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride = sizes[d].is_number() ? stride * maximum(sizes[d], 1) : stride * sizes[d];
  }
  return strides;
}

TensorType contiguous_type(c10::ScalarType dtype, Sizes sizes, c10::Device device) {
  auto strides = contiguous_strides(sizes);
  return {.dtype = dtype, .sizes = std::move(sizes), .strides = std::move(strides), .device = device};
}

} // namespace weft::graph
