#pragma once

#include "weft/core/shard_math.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

/// The chunks of a tensor along a dim as by torch.chunk, but always `count` of them: the last ones may be empty.
inline std::vector<at::Tensor> chunk_views(const at::Tensor& tensor, int64_t count, int64_t dim) {
  std::vector<at::Tensor> chunks;
  for (int64_t i = 0; i < count; ++i) {
    const auto run = chunk(tensor.size(dim), count, i);
    chunks.push_back(tensor.narrow(dim, run.begin, run.length));
  }
  return chunks;
}

} // namespace weft
