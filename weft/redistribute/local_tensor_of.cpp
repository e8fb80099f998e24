#include "weft/redistribute/local_tensor_of.h"

#include "weft/core/shard_math.h"

#include <ATen/ops/cat.h>

namespace weft {

at::Tensor local_tensor_of(
    const at::Tensor& global,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate) {
  auto local = global;
  for (int64_t d = 0; d < global.dim(); ++d) {
    std::vector<at::Tensor> runs;
    for (const auto& run : local_runs(global.size(d), d, layout, mesh_shape, coordinate)) {
      runs.push_back(run.length == global.size(d) ? local : local.narrow(d, run.begin, run.length));
    }
    local = runs.size() == 1 ? runs[0] : at::cat(runs, d);
  }
  return local;
}

} // namespace weft
