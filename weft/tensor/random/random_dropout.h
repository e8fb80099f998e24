#pragma once

#include <torch/library.h>

namespace weft {

/// Registers dropout, alpha_dropout and rrelu for distributed tensors, and the operators that autograd's graph has for
/// them. The result has the input's layout, with R in the place of P.
void register_random_dropout(torch::Library& library);

} // namespace weft
