#pragma once

#include "weft/core/tensor_spec.h"

namespace weft {

/// Layouts that are made of others.

/// R on every mesh dim.
Layout replicated(const DeviceMesh& mesh);

/// R where the layout is partial. A gradient has this layout unless another one is asked for, because the gradient of a sum
/// is the gradient of each of its terms.
///
///   {S(0), P(sum)}   ->   {S(0), R}
Layout without_partial(const Layout& layout);

/// P(sum) where the layout is P(avg): the layout of the terms when the division by the number of ranks is done apart.
Layout with_sums_for_averages(const Layout& layout);
/// The number of ranks that the P(avg) placements of a spec average over, 1 without any.
int64_t averaged_over(const TensorSpec& spec);

/// Whether the tensor is a linear function of what the ranks hold: true of R, S, P(sum) and P(avg).
bool is_linear(const Layout& layout);

} // namespace weft
