#pragma once

#include "weft/core/layout_algebra.h"

#include <optional>

namespace weft {

/// Layouts as users give them. `where` begins the error text: "[from_local] ...".

/// Raises unless there is one placement per mesh dim; counts negative dims from the end.
Layout checked_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t ndim);
/// Raises for a partial placement as well.
Layout checked_without_partial(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t ndim);

/// The layout that is asked for of a gradient, else without_partial of the tensor's. Raises unless the local gradient then has
/// the shape of the local tensor.
Layout checked_gradient_layout(const char* where, const TensorSpec& spec, const std::optional<Layout>& asked);
/// Raises where the gradient of a local tensor does not follow from that of the distributed one: for P(max) and the like.
void check_has_gradient(const char* where, const TensorSpec& spec);

} // namespace weft
