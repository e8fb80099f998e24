#include "weft/tensor/boundary/distribute_tensor.h"

#include "weft/comm/communicator.h"
#include "weft/core/checked_layout.h"
#include "weft/redistribute/local_tensor_of.h"
#include "weft/tensor/boundary/agreement.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/install_dispatch.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

namespace weft {

namespace {

using Coordinate = c10::SmallVector<int64_t, kMaxMeshDims>;

/// The local tensor of the rank at `coordinate`.
at::Tensor local_at(const at::Tensor& global, const TensorSpec& spec, c10::IntArrayRef coordinate) {
  return local_tensor_of(global, spec.layout(), spec.mesh().shape(), coordinate).contiguous();
}

/// Some dims of a mesh: this rank's group along them, and the source's position in that group.
class Slice {
 public:
  Slice(const DeviceMesh& mesh, MeshDims mesh_dims, int64_t source)
      : mesh_(mesh), mesh_dims_(std::move(mesh_dims)), source_(source), size_(mesh.group_size(mesh_dims_)) {
    for (const auto m : mesh_dims_) {
      source_member_ = source_member_ * mesh.size(m) + source;
    }
  }

  bool is_single() const {
    return size_ == 1;
  }
  int64_t size() const {
    return size_;
  }
  int64_t source_member() const {
    return source_member_;
  }
  /// Whether this rank has the source's coordinates along these dims.
  bool is_at_source() const {
    return std::all_of(mesh_dims_.begin(), mesh_dims_.end(), [&](int64_t m) { return mesh_.rank(m) == source_; });
  }
  Coordinate coordinate(int64_t member) const {
    Coordinate result(mesh_.coordinate().begin(), mesh_.coordinate().end());
    for (auto it = mesh_dims_.rbegin(); it != mesh_dims_.rend(); ++it) {
      result[*it] = member % mesh_.size(*it);
      member /= mesh_.size(*it);
    }
    return result;
  }
  std::shared_ptr<Group> group() const {
    return Communicator::of(mesh_).group(mesh_, mesh_dims_);
  }

 private:
  const DeviceMesh& mesh_;
  MeshDims mesh_dims_;
  int64_t source_;
  int64_t size_;
  int64_t source_member_ = 0;
};

/// Scatters the source's shards along the mesh dims that shard the tensor, then broadcasts them along the others.
at::Tensor local_from_source(const at::Tensor& global, const TensorSpec& spec, int64_t source) {
  const auto& mesh = spec.mesh();
  MeshDims sharded;
  MeshDims replicated;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    (spec.layout()[m].is_shard() ? sharded : replicated).push_back(m);
  }
  const Slice shards(mesh, std::move(sharded), source);
  const Slice replicas(mesh, std::move(replicated), source);
  auto local = at::empty(spec.local_shape_and_offset().shape, global.options());
  if (replicas.is_at_source()) {
    std::vector<at::Tensor> locals(shards.size());
    for (int64_t i = 0; shards.is_at_source() && i < shards.size(); ++i) {
      locals[i] = local_at(global, spec, shards.coordinate(i));
    }
    if (shards.is_single()) {
      local.copy_(locals[0]);
    } else {
      shards.group()->scatter(locals, local, shards.source_member()).wait();
    }
  }
  if (!replicas.is_single()) {
    replicas.group()->broadcast(local, replicas.source_member()).wait();
  }
  return local;
}

at::Tensor local_from_own(const at::Tensor& global, const TensorSpec& spec) {
  const auto local = local_at(global, spec, spec.mesh().coordinate());
  return local.is_alias_of(global) ? local.clone() : local;
}

at::Tensor local_from(const at::Tensor& global, const TensorSpec& spec, std::optional<int64_t> source) {
  if (global.is_meta() || !spec.mesh().is_member()) {
    return at::empty(spec.local_shape_and_offset().shape, global.options());
  }
  if (!source) {
    return local_from_own(global, spec);
  }
  if (debug_enabled()) {
    check_globals_agree("distribute_tensor", global, spec.mesh());
  }
  return local_from_source(global, spec, *source);
}

} // namespace

at::Tensor distribute_tensor(
    const at::Tensor& tensor,
    const DeviceMesh& mesh,
    const Layout& layout,
    const DistributeOptions& options) {
  install_dispatch();
  TORCH_CHECK_TYPE(tensor.defined(), "[distribute_tensor] a tensor is required, but got an undefined one.");
  check_has_dense_memory("distribute_tensor", tensor);
  const auto placements = checked_layout("distribute_tensor", mesh, layout, tensor.dim());
  if (const auto* impl = as_dtensor(tensor)) {
    TORCH_CHECK_VALUE(
        impl->spec()->mesh() == mesh && impl->spec()->layout() == placements,
        "[distribute_tensor] a plain tensor is required, or one that is distributed as asked, but got ", *impl->spec(),
        " for ", placements, " on ", mesh, ". Use redistribute to change its placements.");
    return tensor;
  }
  TORCH_CHECK_VALUE(
      tensor.is_leaf(), "[distribute_tensor] a leaf is required, since the result is one, but got a tensor of shape ",
      tensor.sizes(), " that has a history. Use from_local inside a computation, or detach it first.");
  if (has_tangent(tensor)) {
    return with_tangent(tensor, [&](const at::Tensor& each) { return distribute_tensor(each, mesh, layout, options); });
  }
  const auto source = options.src_data_rank;
  TORCH_CHECK_VALUE(
      !source || (*source >= 0 && *source < *std::min_element(mesh.shape().begin(), mesh.shape().end())),
      "[distribute_tensor] src_data_rank must be a position along every mesh dim of ", mesh, ", but got ", *source,
      ". Use 0 for the first rank.");
  const c10::NoGradGuard no_grad;
  const auto spec = TensorSpec::make(
      mesh, without_partial(placements), tensor.sizes(), strides_as_in(tensor, tensor.sizes()), tensor.scalar_type());
  const auto local = local_from(on_device_of(mesh, tensor).resolve_conj().resolve_neg(), *spec, source);
  if (!mesh.is_member()) {
    return make_dtensor(local, spec->with(placements)).set_requires_grad(tensor.requires_grad());
  }
  const auto result = make_dtensor(in_stride_order(local, *spec), spec);
  return (placements.has_partial() ? redistribute(result, placements) : result)
      .set_requires_grad(tensor.requires_grad());
}

} // namespace weft
