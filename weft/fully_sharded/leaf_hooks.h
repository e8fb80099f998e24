#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Hooks that users have registered for a leaf, as by Tensor.register_hook(), are not called from now on where a pass gives the leaf no
/// gradient: they would be given None. On one device autograd does not call them for a parameter that was not used.
void skip_hooks_without_gradient(const at::Tensor& leaf);

} // namespace weft
