#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

namespace weft {

/// As redistribute; where the same is asked of this very tensor, unchanged, at another place, nothing moves again. What three
/// modules take is then gathered once, and its gradient, their sum, reduced once.
///
/// `place` tells who asks: the input of one module. One that asks again is called anew, with a tensor that may have been
/// written to in ways that no counter sees (by numpy, to the memory of to_local()), so that the values are communicated anew.
/// Such writes between two modules of one forward are not noticed. All ranks decide alike, because the decision follows from
/// the calls of the program alone.
///
/// A result with memory of its own lives as long as the tensor. One that shares the tensor's memory is made again, and the
/// gradients of all that are made are added up before they move.
at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout, const void* place);

} // namespace weft
