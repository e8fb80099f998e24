#pragma once

#include <torch/library.h>

namespace weft {

/// Registers dropout, alpha_dropout and rrelu for distributed tensors, with their forms in the graph. The result lies as
/// the input, replicated where that is partial.
void register_random_dropout(torch::Library& library);

} // namespace weft
