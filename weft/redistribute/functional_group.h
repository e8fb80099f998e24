#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace weft {

/// Names the process group of c10d over the ranks along some dims of a mesh, in the mesh's order.
using NameGroup = std::function<std::string(const DeviceMesh&, c10::IntArrayRef mesh_dims)>;

/// Sets how groups are named in traced programs. Python does so, because it makes the process groups.
void name_groups_by(NameGroup name);

/// Collectives on traced tensors, or for a LocalRecorder: operators of c10d (`_c10d_functional`), which compilers know.
/// Members are numbered row-major over the mesh dims. In a group of one member nothing is recorded.
class FunctionalGroup {
 public:
  FunctionalGroup(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims);

  int64_t size() const {
    return size_;
  }
  at::Tensor all_reduce(const at::Tensor& term, ReduceOp op) const;
  /// The members' tensors, of one shape, joined along dim 0.
  at::Tensor all_gather(const at::Tensor& own) const;
  /// This member's chunk along dim 0 of the members' reduced tensors; all chunks have one size.
  at::Tensor reduce_scatter(const at::Tensor& terms, ReduceOp op) const;
  /// sends[i] goes to member i and may be undefined; what arrives from member i has shapes[i], undefined if that is
  /// empty.
  std::vector<at::Tensor> all_to_all(
      const std::vector<at::Tensor>& sends,
      const std::vector<c10::DimVector>& shapes,
      const at::TensorOptions& options) const;

 private:
  std::string group_name(const char* collective) const;
  template <class... Arguments>
  at::Tensor call(const char* name, Arguments... arguments) const;
  template <class Reduce>
  at::Tensor reduced(const at::Tensor& term, ReduceOp op, const Reduce& reduce) const;

  DeviceMesh mesh_;
  MeshDims mesh_dims_; // those of more than one rank
  int64_t size_ = 1;
};

} // namespace weft
