#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

namespace weft {

/// Properties of a distributed tensor. None of these functions communicates; all raise for a plain tensor.
///
///   spec_of(t)->to_string();        // "f32[5,3] @ mesh(tp=2) {S(0)}"
///   placements(t)[0];               // S(0)
///   local_shape_and_offset(t);      // on rank 1: shape {2, 3}, offset {3, 0}

const SpecPtr& spec_of(const at::Tensor& tensor);
const DeviceMesh& mesh_of(const at::Tensor& tensor);
c10::ArrayRef<Placement> placements(const at::Tensor& tensor);

/// The shape and offset of this rank's local tensor, for an existing tensor or for one that would have these sizes and
/// layout. Empty on a rank that is not in the mesh.
LocalBlock local_shape_and_offset(const at::Tensor& tensor);
LocalBlock local_shape_and_offset(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout);

/// The implementation of a distributed tensor. Raises for any other tensor; the message begins with `[where]`.
DTensorImpl& checked_dtensor(const char* where, const at::Tensor& tensor);
/// As above. Raises also for a view that had to be redistributed if its values are out of date.
DTensorImpl& checked_values(const char* where, const at::Tensor& tensor);

} // namespace weft
