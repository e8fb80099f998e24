#pragma once

#include "weft/core/tensor_spec.h"

#include <string_view>

namespace weft {

/// Raises where an operator writes to an expanded tensor, several elements of which share one place in memory, unless
/// it writes the same value to all of them. Torch's kernels refuse such tensors too, but only if they are not empty: a
/// rank with an empty shard would go on while other ranks raise.
void check_not_expanded(std::string_view op, const TensorSpec& written);

/// As check_not_expanded, where a result is copied to the tensor: the copy writes other values than the operator does.
void check_takes_copy(std::string_view op, const TensorSpec& written);

} // namespace weft
