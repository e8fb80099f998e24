#pragma once

#include <torch/library.h>

namespace weft {

/// einsum that stays whole, for autograd: run by its rule forward, and backward as einsums again. Equations with an
/// ellipsis, a letter twice in one operand or a letter that is in one operand alone are made of other operators as usual.
void register_einsum(torch::Library& autograd);

} // namespace weft
