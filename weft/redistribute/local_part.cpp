#include "weft/redistribute/local_part.h"

#include "weft/core/shard_math.h"

#include <ATen/ops/cat.h>

namespace weft {

at::Tensor local_part(
    const at::Tensor& global,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate) {
  auto part = global;
  for (int64_t d = 0; d < global.dim(); ++d) {
    std::vector<at::Tensor> pieces;
    for (const auto& run : local_runs(global.size(d), d, layout, mesh_shape, coordinate)) {
      pieces.push_back(run.length == global.size(d) ? part : part.narrow(d, run.begin, run.length));
    }
    part = pieces.size() == 1 ? pieces[0] : at::cat(pieces, d);
  }
  return part;
}

} // namespace weft
