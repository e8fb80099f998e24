#pragma once

#include <torch/library.h>

namespace weft {

/// Operators that change a tensor's shape in place (t_, squeeze_, ...): the tensor becomes what the operator of that name
/// without the underscore gives. Those that have none (resize_, set_) raise.
void register_in_place_views(torch::Library& library);

} // namespace weft
