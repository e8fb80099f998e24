#pragma once

#include "weft/core/layout_algebra.h"

#include <optional>

namespace weft {

/// Checks of the layouts that users pass in. `where` begins the error text: "[from_local] ...".

/// Raises unless there is one placement per mesh dim; counts negative tensor dims from the end. The world notes unequal blocks.
Layout checked_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t ndim);
/// As checked_layout; raises for a partial placement as well.
Layout checked_without_partial(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t ndim);

/// The gradient layout that the user asked for, or else without_partial of the tensor's layout. Raises unless the local
/// gradient has the shape of the local tensor under that layout.
Layout checked_gradient_layout(const char* where, const TensorSpec& spec, const std::optional<Layout>& asked);
/// Raises if the gradient of a local tensor cannot be computed from the gradient of the distributed tensor, for example
/// for P(max).
void check_has_gradient(const char* where, const TensorSpec& spec);

} // namespace weft
