#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

namespace weft {

/// What a distributed tensor is. None of these communicates; a plain tensor is an error.
///
///   spec_of(t)->to_string();        // "f32[5,3] @ mesh(tp=2) {S(0)}"
///   placements(t)[0];               // S(0)
///   local_shape_and_offset(t);      // on rank 1: shape {2, 3}, offset {3, 0}

const SpecPtr& spec_of(const at::Tensor& tensor);
const DeviceMesh& mesh_of(const at::Tensor& tensor);
c10::ArrayRef<Placement> placements(const at::Tensor& tensor);

/// This rank's part of a tensor, or of one that could be made; empty on a rank that is not in the mesh.
LocalBlock local_shape_and_offset(const at::Tensor& tensor);
LocalBlock local_shape_and_offset(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout);

/// The implementation behind a distributed tensor; raises for any other, in the name of `where`.
DTensorImpl& checked_dtensor(const char* where, const at::Tensor& tensor);
/// As above; raises as well where the values are those of a view that had to be moved and are out of date.
DTensorImpl& checked_values(const char* where, const at::Tensor& tensor);

} // namespace weft
