#pragma once

#include "weft/core/tensor_spec.h"

#include <string_view>

namespace weft {

/// Raises where an operator that writes each element once is given an expanded tensor, several elements of which are one
/// place in memory. Kernels of torch refuse it as well, but only where there is something to write: a rank with an empty
/// shard would go on where others raise.
void check_not_expanded(std::string_view op, const TensorSpec& written);

} // namespace weft
