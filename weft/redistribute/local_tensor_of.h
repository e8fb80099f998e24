#pragma once

#include "weft/core/layout.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// What the rank at `coordinate` holds of a global tensor: a view of it unless a strided shard has to be put together.
at::Tensor local_tensor_of(
    const at::Tensor& global,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);

} // namespace weft
