#pragma once

#include "weft/core/layout_algebra.h"

#include <ATen/ATen.h>

#include <vector>

namespace weft::testing {

/// Every layout of a tensor of `tensor_rank` dims on a mesh of `mesh_ndim` dims with these placements, in every order of
/// cuts; without those that no spec can have (partial values that do not commute).
std::vector<Layout> all_layouts(int64_t mesh_ndim, int64_t tensor_rank, const std::vector<Placement>& placements);

/// R, S and SS of every tensor dim, P of every op.
std::vector<Placement> all_placements(int64_t tensor_rank);

/// What the rank at `coordinate` holds of `whole`, by definition: cut step by step with torch.chunk, partial values as
/// uneven terms with changing signs that give back `whole` exactly (its values must be whole numbers).
at::Tensor local_by_definition(
    const at::Tensor& whole,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);

/// The values of partial mesh dims reduced: `locals` are those of all ranks, row-major; every rank gets the result.
std::vector<at::Tensor> reduce_partials(
    std::vector<at::Tensor> locals,
    const Layout& layout,
    c10::IntArrayRef mesh_shape);

} // namespace weft::testing
