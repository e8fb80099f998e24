#pragma once

#include "weft/core/layout_algebra.h"

#include <ATen/ATen.h>

#include <vector>

namespace weft::testing {

/// Every layout of a tensor of `tensor_ndim` dims on a mesh of `mesh_ndim` dims with these placements, in every shard
/// order; without those that no spec can have (partial values that do not commute).
std::vector<Layout> all_layouts(int64_t mesh_ndim, int64_t tensor_ndim, const std::vector<Placement>& placements);

/// The same on a mesh of this shape, without ragged shards that have lengths for another number of members.
std::vector<Layout> all_layouts(
    c10::IntArrayRef mesh_shape,
    int64_t tensor_ndim,
    const std::vector<Placement>& placements);

/// R, S and SS of every tensor dim, P of every op.
std::vector<Placement> all_placements(int64_t tensor_ndim);

/// What the rank at `coordinate` holds of `global`, by definition: sharded step by step with torch.chunk, partial values as
/// uneven terms with changing signs whose sum is `global` exactly (its values must be integers).
at::Tensor local_by_definition(
    const at::Tensor& global,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);

/// The values of partial mesh dims reduced: `locals` are those of all ranks, row-major; every rank gets the result.
std::vector<at::Tensor> reduce_partials(
    std::vector<at::Tensor> locals,
    const Layout& layout,
    c10::IntArrayRef mesh_shape);

} // namespace weft::testing
