#include "weft/tensor/boundary/agreement.h"

#include "weft/comm/collectives.h"
#include "weft/core/dtype_text.h"
#include "weft/tensor/boundary/stride_order.h"

#include <ATen/ATen.h>

#include <numeric>

namespace weft {

namespace {

/// The rows of all ranks of the mesh, in the order of mesh.ranks().
at::Tensor gather_rows(const std::vector<int64_t>& row, const DeviceMesh& mesh) {
  MeshDims all(mesh.ndim());
  std::iota(all.begin(), all.end(), 0);
  const auto own = at::tensor(row, at::kLong).unsqueeze(0).to(c10::Device(mesh.device_type()));
  return all_gather(own, mesh, all, 0).wait().cpu();
}

std::vector<int64_t> row_of(const at::Tensor& rows, int64_t index) {
  const auto row = rows[index].contiguous();
  return {row.const_data_ptr<int64_t>(), row.const_data_ptr<int64_t>() + row.numel()};
}

int64_t checksum(const at::Tensor& local) {
  const auto bytes = local.detach().resolve_conj().resolve_neg().cpu().contiguous();
  const std::string_view view(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  return static_cast<int64_t>(std::hash<std::string_view>()(view));
}

struct Difference {
  int64_t mesh_dim;
  int64_t first_rank;
  int64_t other_rank;
};

/// The first two ranks with different checksums along a mesh dim whose placement is R.
std::optional<Difference> first_difference(const at::Tensor& checksums, const TensorSpec& spec) {
  const auto& mesh = spec.mesh();
  int64_t stride = mesh.size();
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    stride /= mesh.size(m);
    if (!spec.layout()[m].is_replicate()) {
      continue;
    }
    for (int64_t i = 0; i < mesh.size(); ++i) {
      const auto first = i - coordinate_at(i, mesh.shape())[m] * stride;
      if (row_of(checksums, i) != row_of(checksums, first)) {
        return Difference{m, mesh.ranks()[first], mesh.ranks()[i]};
      }
    }
  }
  return std::nullopt;
}

void check_kinds_agree(const char* where, const at::Tensor& tensor, const DeviceMesh& mesh) {
  const auto kinds = gather_rows({tensor.dim(), static_cast<int64_t>(tensor.scalar_type())}, mesh);
  const auto first = row_of(kinds, 0);
  for (int64_t i = 1; i < mesh.size(); ++i) {
    const auto other = row_of(kinds, i);
    TORCH_CHECK_VALUE(
        first == other, "[", where, "] all ranks must give tensors of one dtype and number of dims, but rank ",
        mesh.ranks()[0], " gave ", dtype_text(static_cast<at::ScalarType>(first[1])), " of ", first[0],
        " dims and rank ", mesh.ranks()[i], " gave ", dtype_text(static_cast<at::ScalarType>(other[1])), " of ",
        other[0], " dims. Convert them first.");
  }
}

/// The ranks would make tensors of different specs, and decide differently how to run an operator.
void check_strides_agree(const char* where, c10::IntArrayRef strides, const DeviceMesh& mesh) {
  const auto all = gather_rows(strides.vec(), mesh);
  const auto first = row_of(all, 0);
  for (int64_t i = 1; i < mesh.size(); ++i) {
    const auto other = row_of(all, i);
    TORCH_CHECK_VALUE(
        first == other, "[", where, "] all ranks must give tensors with their dims in one order in memory, but rank ",
        mesh.ranks()[0], " gave one for the global strides ", c10::IntArrayRef(first), " and rank ", mesh.ranks()[i],
        " one for ", c10::IntArrayRef(other), ". Give contiguous tensors.");
  }
}

/// Backward would run on some ranks and not on others.
void check_requires_grad_agrees(const char* where, const at::Tensor& local, const DeviceMesh& mesh) {
  const auto all = gather_rows({local.requires_grad()}, mesh);
  for (int64_t i = 1; i < mesh.size(); ++i) {
    TORCH_CHECK_VALUE(
        row_of(all, i) == row_of(all, 0), "[", where,
        "] all ranks must give tensors that require a gradient, or none, ", "but those of ranks ", mesh.ranks()[0],
        " and ", mesh.ranks()[i], " differ in it. Detach them, or none.");
  }
}

} // namespace

void check_local_shape(
    const char* where,
    c10::IntArrayRef shape,
    c10::IntArrayRef expected,
    int64_t rank,
    const TensorSpec& spec) {
  TORCH_CHECK_VALUE(
      shape == expected, "[", where, "] rank ", rank, " must give a local tensor of shape ", expected, " of ", spec,
      ", but got ", shape, ". Give the global shape and stride where the local tensors differ in size.");
}

void check_locals_agree(const char* where, const at::Tensor& local, const TensorSpec& spec, bool shape_is_given) {
  const auto& mesh = spec.mesh();
  if (mesh.device_type() == c10::kMeta) {
    return;
  }
  check_kinds_agree(where, local, mesh);
  check_requires_grad_agrees(where, local, mesh);
  if (local.dim() == 0) {
    return;
  }
  const auto local_shapes = gather_rows(local.sizes().vec(), mesh);
  const auto global_shapes = gather_rows(spec.sizes().vec(), mesh);
  const auto expected_at = [&](int64_t i) {
    return local_shape_and_offset(spec.sizes(), spec.layout(), mesh.shape(), coordinate_at(i, mesh.shape())).shape;
  };
  for (int64_t i = 0; i < mesh.size(); ++i) {
    const auto first = shape_is_given ? row_of(global_shapes, 0) : row_of(local_shapes, 0);
    const auto other = shape_is_given ? row_of(global_shapes, i) : row_of(local_shapes, i);
    TORCH_CHECK_VALUE(
        first == other, "[", where, "] all ranks must give ",
        shape_is_given ? "one global shape" : "local tensors of one shape, unless the global shape is given",
        ", but rank ", mesh.ranks()[0], " gave ", c10::IntArrayRef(first), " and rank ", mesh.ranks()[i], " gave ",
        c10::IntArrayRef(other),
        ". Give the same shape and stride on all ranks where the local tensors differ in size.");
  }
  for (int64_t i = 0; i < mesh.size(); ++i) {
    check_local_shape(where, row_of(local_shapes, i), expected_at(i), mesh.ranks()[i], spec);
  }
  check_strides_agree(where, spec.strides(), mesh);
}

void check_globals_agree(const char* where, const at::Tensor& global, const DeviceMesh& mesh) {
  if (mesh.device_type() == c10::kMeta) {
    return;
  }
  check_kinds_agree(where, global, mesh);
  if (global.dim() == 0) {
    return;
  }
  const auto shapes = gather_rows(global.sizes().vec(), mesh);
  const auto first = row_of(shapes, 0);
  for (int64_t i = 1; i < mesh.size(); ++i) {
    const auto other = row_of(shapes, i);
    TORCH_CHECK_VALUE(
        first == other, "[", where, "] all ranks must give tensors of one shape, but rank ", mesh.ranks()[0], " gave ",
        c10::IntArrayRef(first), " and rank ", mesh.ranks()[i], " gave ", c10::IntArrayRef(other),
        ". Give a tensor of the source's shape on every rank.");
  }
  check_strides_agree(where, strides_as_in(global, global.sizes()), mesh);
}

void check_replicas_agree(const char* where, const at::Tensor& local, const TensorSpec& spec, ReplicaClaim claim) {
  const auto& mesh = spec.mesh();
  const bool claims = std::any_of(
      spec.placements().begin(), spec.placements().end(), [](const Placement& p) { return p.is_replicate(); });
  if (!claims || local.is_meta()) {
    return;
  }
  const auto difference = first_difference(gather_rows({checksum(local)}, mesh), spec);
  if (!difference) {
    return;
  }
  const auto& name = mesh.name(difference->mesh_dim);
  TORCH_CHECK_VALUE(
      claim == ReplicaClaim::Gradients, "[", where, "] ranks ", difference->first_rank, " and ", difference->other_rank,
      " must hold the same values, since ", spec, " says R on mesh dim ", name,
      ", but they differ. Give run_check to take those of the first rank, or the placements that the values have.");
  TORCH_CHECK_VALUE(
      false, "[", where, "] ranks ", difference->first_rank, " and ", difference->other_rank,
      " must have the same gradient, since it is taken to be ", spec.layout(), ", but they differ along mesh dim ",
      name, ": a reduction would be lost. Give grad_placements ", spec.layout().with(difference->mesh_dim, Partial()),
      " where each rank has a term of the gradient.");
}

} // namespace weft
