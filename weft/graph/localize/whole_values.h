#pragma once

#include "weft/graph/analysis/local_sizes.h"

#include <ATen/core/Tensor.h>

namespace weft::graph {

/// A rank's part of a whole tensor: a view wherever it can be one.
at::Tensor part_of(const at::Tensor& whole, const Layout& layout, const MeshPlace& place);

bool part_is_view(c10::IntArrayRef sizes, const Layout& layout, const MeshPlace& place);

/// The whole tensor of the parts of all ranks of a mesh, in its order. Raises where ranks that should hold the same do not,
/// and for strided placements.
at::Tensor whole_of(const std::vector<at::Tensor>& parts, const Layout& layout, c10::IntArrayRef mesh_shape);

} // namespace weft::graph
