#pragma once

#include "weft/graph/analysis/local_sizes.h"

#include <ATen/core/Tensor.h>

namespace weft::graph {

/// A rank's local tensor of a global one: a view of it wherever `local_is_view`, otherwise a copy.
at::Tensor local_value(const at::Tensor& global, const Layout& layout, const MeshPlace& place);

bool local_is_view(c10::IntArrayRef sizes, const Layout& layout, const MeshPlace& place);

/// The global tensor of the local tensors of all ranks, in the mesh's order. Raises where ranks that should hold the
/// same values do not, and for strided placements.
at::Tensor global_value(const std::vector<at::Tensor>& locals, const Layout& layout, c10::IntArrayRef mesh_shape);

} // namespace weft::graph
