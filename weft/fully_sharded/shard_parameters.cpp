#include "weft/fully_sharded/shard_parameters.h"

#include "weft/core/layout_algebra.h"
#include "weft/core/shard_math.h"
#include "weft/fully_sharded/mesh_on.h"
#include "weft/fully_sharded/ragged_lengths.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/inspect.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace weft {

namespace {

constexpr const char* kName = "fully_shard";

/// The mesh of both: rank (i, j) differs from rank i of the one as rank j of the other differs from this rank.
DeviceMesh joined(const DeviceMesh& outer, const DeviceMesh& inner) {
  auto shape = outer.shape().vec();
  shape.insert(shape.end(), inner.shape().begin(), inner.shape().end());
  auto names = outer.names();
  names.insert(names.end(), inner.names().begin(), inner.names().end());
  std::vector<int64_t> ranks;
  const auto own = outer.world()->rank();
  for (const auto a : outer.ranks()) {
    for (const auto b : inner.ranks()) {
      ranks.push_back(a + b - own);
    }
  }
  const std::set<int64_t> distinct(ranks.begin(), ranks.end());
  TORCH_CHECK_VALUE(
      distinct.size() == ranks.size() && *distinct.begin() >= 0 && *distinct.rbegin() < outer.world()->size(), "[",
      kName, "] the mesh and the mesh of a distributed parameter must be dims of one mesh, but got ", outer, " and ",
      inner, ". Give the mesh that has both, and mesh_dim.");
  return {outer.world(), outer.device_type(), shape, ranks, names};
}

/// A parameter's mesh with the mesh dim, and its layout there, replicated over it.
struct Base {
  DeviceMesh mesh;
  Layout layout;
  int64_t mesh_dim;
};

Base base_of(const at::Tensor& parameter, const DeviceMesh& mesh, const std::string& mesh_dim) {
  TORCH_CHECK_VALUE(
      parameter.dim() > 0, "[", kName,
      "] parameters with a dim to shard are required, but got one without. Make it one of shape ",
      "[1], or name it among ignored_params.");
  if (!is_dtensor(parameter)) {
    return {mesh, replicated(mesh), mesh.dim(mesh_dim)};
  }
  const auto& spec = *spec_of(parameter);
  const auto& names = spec.mesh().names();
  const bool has_dim = std::find(names.begin(), names.end(), mesh_dim) != names.end();
  if (!has_dim) {
    const auto& outer = mesh.ndim() == 1 ? mesh : mesh.submesh({mesh_dim});
    const auto both = joined(outer, spec.mesh());
    Placements placements = {Replicate()};
    c10::SmallVector<int64_t, kMaxMeshDims> positions = {0};
    for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
      placements.push_back(spec.layout()[m]);
      positions.push_back(spec.layout().shard_position(m));
    }
    return {both, Layout(placements, positions), 0};
  }
  const auto m = spec.mesh().dim(mesh_dim);
  TORCH_CHECK_VALUE(
      spec.layout()[m].is_replicate() && !spec.layout().has_partial(), "[", kName,
      "] a parameter that is replicated over mesh dim ", mesh_dim, " is required, but got ", spec,
      ". Call fully_shard once for a module, after parallelize_module.");
  return {spec.mesh(), spec.layout(), m};
}

/// This rank's rows of the local tensor, which is the same on all ranks along the mesh dim.
at::Tensor rows_of(const at::Tensor& local, const SpecPtr& target, const Base& base) {
  const auto& shard = target->layout()[base.mesh_dim];
  const auto dim = shard.dim();
  const auto block = local_runs(
      local.size(dim), dim, Layout{shard}, {base.mesh.size(base.mesh_dim)}, {base.mesh.rank(base.mesh_dim)})[0];
  const auto rows = local.narrow(dim, block.begin, block.length).clone(at::MemoryFormat::Contiguous);
  return make_dtensor(in_stride_order(on_device_of(target->mesh(), rows), *target), target);
}

} // namespace

c10::DimVector row_strides(c10::IntArrayRef sizes, int64_t dim) {
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + dim, order.begin() + dim + 1);
  return dense_strides(sizes, order);
}

std::vector<std::vector<size_t>> flat_groups(c10::ArrayRef<at::Tensor> parameters) {
  std::vector<std::vector<size_t>> groups;
  const auto mesh = [](const at::Tensor& tensor) { return is_dtensor(tensor) ? mesh_of(tensor) : DeviceMesh(); };
  for (size_t k = 0; k < parameters.size(); ++k) {
    const auto& own = parameters[k];
    const auto found = std::find_if(groups.begin(), groups.end(), [&](const std::vector<size_t>& group) {
      const auto& other = parameters[group[0]];
      return other.scalar_type() == own.scalar_type() && other.requires_grad() == own.requires_grad() &&
          is_dtensor(other) == is_dtensor(own) && (!is_dtensor(own) || mesh(other) == mesh(own));
    });
    (found == groups.end() ? groups.emplace_back() : *found).push_back(k);
  }
  return groups;
}

std::vector<at::Tensor> shard_parameters(
    c10::ArrayRef<at::Tensor> parameters,
    const DeviceMesh& mesh,
    const std::string& mesh_dim,
    std::optional<c10::DeviceType> keep_on,
    c10::IntArrayRef tensor_dims) {
  const c10::InferenceMode normal(false); // a model may be made there and trained outside
  const at::NoGradGuard no_graph;
  const auto dim_of = [&](size_t k) { return tensor_dims.empty() ? 0 : tensor_dims[k]; };
  std::vector<at::Tensor> result(parameters.size());
  for (const auto& group : flat_groups(parameters)) {
    std::vector<Base> bases;
    std::vector<c10::DimVector> shapes;
    for (const auto k : group) {
      auto& base = bases.emplace_back(base_of(parameters[k], mesh, mesh_dim));
      base.mesh = keep_on ? mesh_on(base.mesh, *keep_on) : base.mesh;
      auto& shape = shapes.emplace_back(largest_local_shape(parameters[k].sizes(), base.layout, base.mesh.shape()));
      std::rotate(shape.begin(), shape.begin() + dim_of(k), shape.begin() + dim_of(k) + 1); // its rows in front
    }
    const auto lengths = ragged_lengths(shapes, bases[0].mesh.size(bases[0].mesh_dim));
    for (size_t i = 0; i < group.size(); ++i) {
      const auto& parameter = parameters[group[i]];
      const auto& base = bases[i];
      const auto dim = dim_of(group[i]);
      const auto layout = base.layout.with(base.mesh_dim, RaggedShard(dim, lengths[i]));
      if (is_dtensor(parameter)) {
        const auto target = TensorSpec::make(
            base.mesh, layout, parameter.sizes(), row_strides(parameter.sizes(), dim), parameter.scalar_type());
        result[group[i]] = rows_of(as_dtensor(parameter)->local(), target, base);
      } else {
        const auto rows_outermost = parameter.detach().movedim(dim, 0).contiguous().movedim(0, dim);
        result[group[i]] = distribute_tensor(rows_outermost, base.mesh, layout);
      }
    }
  }
  return result;
}

} // namespace weft
