#pragma once

#include "weft/core/tensor_spec.h"

#include <c10/util/FunctionRef.h>

namespace weft {

/// Functions that derive a layout from another one, and questions about layouts.

/// R on every mesh dim.
Layout replicated(const DeviceMesh& mesh);
bool is_replicated(const Layout& layout);

/// R on the mesh dims that `is_taken` takes.
Layout replicated_where(const Layout& layout, c10::function_ref<bool(int64_t mesh_dim)> is_taken);

/// The layout with R instead of every partial placement. A gradient has this layout unless the user asks for another
/// one: every term of a sum has the gradient of the sum, so all ranks hold the same gradient.
///
///   {S(0), P(sum)}   ->   {S(0), R}
Layout without_partial(const Layout& layout);

/// The layout with other placements for its shards, of a tensor with other dims. All shards of one tensor dim must become
/// shards of one dim again, which keep their order, or R.
///
///   map_shards({S(2), P(sum)}, [](const Placement& p) { return Shard(p.dim() - 1); })   // {S(1), P(sum)}
Layout map_shards(const Layout& layout, c10::function_ref<Placement(const Placement&)> change);

/// The layout with P(sum) instead of P(avg), for a caller that divides by the number of ranks itself.
Layout with_sums_for_averages(const Layout& layout);
/// The number of ranks that the P(avg) placements of a spec average over; 1 without any.
int64_t averaged_over(const TensorSpec& spec);

/// Whether the global tensor is a linear function of the local tensors: true of R, S, P(sum) and P(avg).
bool is_linear(const Layout& layout);

/// Whether the partial mesh dims may be reduced in any order, as a layout of a tensor requires.
bool partials_commute(const Layout& layout);

/// Whether no redistribution leads from one layout to another: a shard cannot become a partial value.
bool is_refused(const Layout& source, const Layout& target);

} // namespace weft
