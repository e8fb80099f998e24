#pragma once

#include <c10/core/DispatchKeySet.h>

namespace weft {

/// The keys by which the dispatcher finds ATen's derivative of an operator whose kernel at the autograd key of distributed
/// tensors is one of Weft's: nested tensors have the same derivative, at a key of their own.
inline c10::DispatchKeySet to_derivative_of_torch(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradNestedTensor);
}

/// As above, for operators of which nested tensors have a derivative of their own (sum).
inline c10::DispatchKeySet to_common_derivative_of_torch(c10::DispatchKeySet keys) {
  return (keys & c10::after_autograd_keyset).add(c10::DispatchKey::AutogradOther);
}

} // namespace weft
