#include "weft/fully_sharded/gathered_parameter.h"

#include "weft/core/layout_algebra.h"

namespace weft {

namespace {

/// nullptr: the parameter is plain.
SpecPtr gathered_spec(const FlatParameters& parameters, size_t number, const ShardDims& dims, bool is_global) {
  const auto& spec = *parameters.spec(number);
  const auto& mesh = parameters.mesh();
  const auto layout = spec.layout().with(mesh.dim(dims.shard), Replicate());
  const auto dtype = parameters.gathered_dtype();
  if (is_global) {
    return TensorSpec::make(mesh, layout, spec.sizes(), spec.strides(), dtype);
  }
  std::vector<std::string> names;
  Placements placements;
  c10::SmallVector<int64_t, kMaxMeshDims> positions;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    if (mesh.name(m) != dims.shard && mesh.name(m) != dims.replicate) {
      names.push_back(mesh.name(m));
      placements.push_back(layout[m]);
      positions.push_back(layout.shard_position(m));
    }
  }
  return names.empty()
      ? nullptr
      : TensorSpec::make(mesh.submesh(names), Layout(placements, positions), spec.sizes(), spec.strides(), dtype);
}

} // namespace

at::Tensor gathered_parameter(const FlatParameters& parameters, size_t number, const ShardDims& dims, bool is_global) {
  auto local = parameters.gathered_local(number);
  const auto spec = gathered_spec(parameters, number, dims, is_global);
  if (spec == nullptr) {
    return local;
  }
  auto parameter = make_dtensor(local, spec);
  as_dtensor(parameter)->become_cast_parameter(); // operators leave it where it is
  return parameter;
}

} // namespace weft
