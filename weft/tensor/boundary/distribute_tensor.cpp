#include "weft/tensor/boundary/distribute_tensor.h"

#include "weft/comm/communicator.h"
#include "weft/core/checked_layout.h"
#include "weft/redistribute/local_part.h"
#include "weft/tensor/boundary/agreement.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/install_dispatch.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

namespace weft {

namespace {

using Coordinate = c10::SmallVector<int64_t, kMaxMeshDims>;

/// What the rank at `coordinate` holds of the whole tensor.
at::Tensor part_at(const at::Tensor& whole, const TensorSpec& spec, c10::IntArrayRef coordinate) {
  return local_part(whole, spec.layout(), spec.mesh().shape(), coordinate).contiguous();
}

/// Some dims of a mesh: the group of this rank along them, and the source's place in it.
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
  /// Whether this rank is where the source is, along these dims.
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

at::Tensor part_from_source(const at::Tensor& whole, const TensorSpec& spec, int64_t source) {
  const auto& mesh = spec.mesh();
  MeshDims cut;
  MeshDims copied;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    (spec.layout()[m].is_shard() ? cut : copied).push_back(m);
  }
  const Slice cuts(mesh, std::move(cut), source);
  const Slice copies(mesh, std::move(copied), source);
  auto part = at::empty(spec.local_shape_and_offset().shape, whole.options());
  if (copies.is_at_source()) {
    std::vector<at::Tensor> parts(cuts.size());
    for (int64_t i = 0; cuts.is_at_source() && i < cuts.size(); ++i) {
      parts[i] = part_at(whole, spec, cuts.coordinate(i));
    }
    if (cuts.is_single()) {
      part.copy_(parts[0]);
    } else {
      cuts.group()->scatter(parts, part, cuts.source_member()).wait();
    }
  }
  if (!copies.is_single()) {
    copies.group()->broadcast(part, copies.source_member()).wait();
  }
  return part;
}

at::Tensor own_part(const at::Tensor& whole, const TensorSpec& spec) {
  const auto part = part_at(whole, spec, spec.mesh().coordinate());
  return part.is_alias_of(whole) ? part.clone() : part;
}

at::Tensor local_part(const at::Tensor& whole, const TensorSpec& spec, std::optional<int64_t> source) {
  if (whole.is_meta() || !spec.mesh().is_member()) {
    return at::empty(spec.local_shape_and_offset().shape, whole.options());
  }
  if (!source) {
    return own_part(whole, spec);
  }
  if (debug_enabled()) {
    check_wholes_agree("distribute_tensor", whole, spec.mesh());
  }
  return part_from_source(whole, spec, *source);
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
  const auto placements = checked_without_partial("distribute_tensor", mesh, layout, tensor.dim());
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
  const auto spec = TensorSpec::make(mesh, placements, tensor.sizes(), tensor.scalar_type());
  const auto part = local_part(on_device_of(mesh, tensor).resolve_conj().resolve_neg(), *spec, source);
  return make_dtensor(part, spec).set_requires_grad(tensor.requires_grad());
}

} // namespace weft
