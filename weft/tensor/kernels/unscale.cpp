#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

constexpr const char* kUnscaleName = "aten::_amp_foreach_non_finite_check_and_unscale_";

/// The mesh dims over which the found infinities of some gradients are reduced: those that shard one of them.
struct ShardedOver {
  DeviceMesh mesh;
  MeshDims mesh_dims;
};

void add_mesh_dims(std::vector<ShardedOver>& all, const TensorSpec& gradient) {
  const auto is_on_mesh = [&](const ShardedOver& each) { return each.mesh == gradient.mesh(); };
  auto found = std::find_if(all.begin(), all.end(), is_on_mesh);
  found = found == all.end() ? all.insert(found, {gradient.mesh(), {}}) : found;
  for (int64_t m = 0; m < gradient.mesh().ndim(); ++m) {
    auto& mesh_dims = found->mesh_dims;
    const bool is_new = std::find(mesh_dims.begin(), mesh_dims.end(), m) == mesh_dims.end();
    if (is_new && gradient.layout()[m].is_shard() && gradient.mesh().size(m) > 1) {
      mesh_dims.push_back(m);
    }
  }
}

at::Tensor local_number(const at::Tensor& number) {
  const auto* impl = as_dtensor(number);
  return impl == nullptr ? number : impl->local();
}

/// Every rank unscales its local tensors. One number per mesh says on all ranks whether one of them has found an infinity.
void check_and_unscale(at::TensorList gradients, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  std::vector<at::Tensor> locals;
  std::vector<ShardedOver> meshes;
  for (const auto& gradient : gradients) {
    auto* impl = as_dtensor(gradient);
    if (impl == nullptr) {
      locals.push_back(gradient);
      continue;
    }
    const auto& spec = *impl->spec();
    TORCH_CHECK_VALUE(
        !spec.layout().has_partial(), "[", kUnscaleName,
        "] gradients with values are required, but got the terms of a sum, ", spec, ". Redistribute it first.");
    add_mesh_dims(meshes, spec);
    impl->count_write();
    locals.push_back(checked_values(kUnscaleName, gradient).local());
  }
  auto found = at::zeros_like(local_number(found_inf));
  at::_amp_foreach_non_finite_check_and_unscale_(locals, found, local_number(inv_scale));
  for (auto& [mesh, mesh_dims] : meshes) {
    std::sort(mesh_dims.begin(), mesh_dims.end());
    found = mesh_dims.empty() ? found : reduce_implicitly(kUnscaleName, found, mesh, mesh_dims, ReduceOp::Max);
  }
  auto result = local_number(found_inf);
  at::maximum_out(result, result, found);
}

} // namespace

void register_unscale(torch::Library& library) {
  library.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(check_and_unscale));
}

} // namespace weft
