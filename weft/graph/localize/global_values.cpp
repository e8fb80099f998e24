#include "weft/graph/localize/global_values.h"

#include "weft/core/shard_math.h"
#include "weft/redistribute/local_tensor_of.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace weft::graph {

namespace {

at::Tensor joined(const std::vector<at::Tensor>& locals, const Placement& placement) {
  if (placement.is_shard()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !placement.is_strided(), "[global_value] strided shards cannot be joined, but got ", placement.to_string(),
        ".");
    return at::cat(locals, placement.dim());
  }
  if (placement.is_partial()) {
    const auto all = at::stack(locals);
    switch (placement.reduce_op()) {
      case ReduceOp::Sum:
        return all.sum(0);
      case ReduceOp::Avg:
        return all.mean(0);
      case ReduceOp::Max:
        return all.amax(0);
      case ReduceOp::Min:
        return all.amin(0);
      case ReduceOp::Product:
        return all.prod(0);
    }
  }
  for (const auto& local : locals) {
    TORCH_CHECK(
        local.sizes() == locals[0].sizes() &&
            at::allclose(local, locals[0], /*rtol=*/0, /*atol=*/0, /*equal_nan=*/true),
        "[global_value] ranks that should hold the same tensor of shape ", locals[0].sizes(), " do not.");
  }
  return locals[0];
}

} // namespace

at::Tensor local_value(const at::Tensor& global, const Layout& layout, const MeshPlace& place) {
  return local_tensor_of(global, layout, place.shape, place.coordinate);
}

bool local_is_view(c10::IntArrayRef sizes, const Layout& layout, const MeshPlace& place) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (local_runs(sizes[d], static_cast<int64_t>(d), layout, place.shape, place.coordinate).size() != 1) {
      return false;
    }
  }
  return true;
}

at::Tensor global_value(const std::vector<at::Tensor>& locals, const Layout& layout, c10::IntArrayRef mesh_shape) {
  // Joins along the mesh dims in reverse shard order.
  std::vector<int64_t> order(mesh_shape.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return layout.shard_position(a) > layout.shard_position(b);
  });
  auto shape = mesh_shape.vec();
  auto left = locals;
  for (const auto m : order) {
    int64_t inner = 1;
    for (size_t i = m + 1; i < shape.size(); ++i) {
      inner *= shape[i];
    }
    std::vector<at::Tensor> next;
    for (size_t first = 0; first < left.size(); ++first) {
      if (static_cast<int64_t>(first) / inner % shape[m] != 0) {
        continue;
      }
      std::vector<at::Tensor> along;
      for (int64_t k = 0; k < shape[m]; ++k) {
        along.push_back(left[first + k * inner]);
      }
      next.push_back(joined(along, layout[m]));
    }
    left = std::move(next);
    shape[m] = 1;
  }
  return left[0];
}

} // namespace weft::graph
