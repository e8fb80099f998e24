#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// Tensors that share data with another one, as autograd sees them.

/// Whether autograd records what happens to this tensor now.
bool is_recorded(const at::Tensor& tensor);
/// The same data apart from the autograd graph; changes through either are noticed by autograd through the other.
at::Tensor untracked(const at::Tensor& tensor);
/// The same data as a view, for a function that gives its input back: autograd refuses to change a view made by a function
/// in place, since the tensor would change and not know.
at::Tensor view_of(const at::Tensor& tensor);
/// Makes autograd notice through each when the other, which shares its memory, is changed in place.
void share_version(const at::Tensor& tensor, const at::Tensor& other);

/// Whether the tensor is a dual one of forward mode AD. Level 0 is the only one that torch has.
inline bool has_tangent(const at::Tensor& tensor) {
  return tensor._fw_grad(/*level=*/0).defined();
}
/// What a linear function makes of a dual tensor: its tangent is what the function makes of the tangent.
template <class Linear>
at::Tensor with_tangent(const at::Tensor& dual, const Linear& linear) {
  const auto tangent = linear(dual._fw_grad(/*level=*/0));
  const auto result = linear(dual._fw_primal(/*level=*/0));
  result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  return result;
}

} // namespace weft
