#pragma once

#include "weft/tensor/dtensor_impl.h"

namespace weft {

/// As redistribute; where the same is asked again of this very tensor, unchanged, nothing moves again. What three modules
/// take is then gathered once, and its gradient, their sum, reduced once.
///
/// A result with memory of its own lives as long as the tensor. One that shares the tensor's memory is made again, and the
/// gradients of all that are made are added up before they move.
at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout);

} // namespace weft
