#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// How autograd sees tensors that share data with another one.

/// Whether autograd records operators on this tensor now.
bool is_recorded(const at::Tensor& tensor);
/// The same data, detached from the autograd graph. Both share one version counter, so that autograd notices a write to
/// either of them.
at::Tensor untracked(const at::Tensor& tensor);
/// Makes `alias`, which shares the memory of `base`, a view of it, for an autograd function that returns its input's
/// memory: autograd then refuses to write to the result in place, because the write would change the input without its
/// graph knowing.
at::Tensor view_of(const at::Tensor& base, const at::Tensor& alias);
/// Gives both tensors, which share memory, one version counter, so that autograd notices a write to either of them.
void share_version(const at::Tensor& tensor, const at::Tensor& other);

/// Whether the tensor is a dual tensor of forward mode AD. Torch has no other level than 0.
inline bool has_tangent(const at::Tensor& tensor) {
  return tensor._fw_grad(/*level=*/0).defined();
}
/// Applies a linear function to a dual tensor: to its value and, as the function is linear, to its tangent.
template <class Linear>
at::Tensor with_tangent(const at::Tensor& dual, const Linear& linear) {
  const auto tangent = linear(dual._fw_grad(/*level=*/0));
  const auto result = linear(dual._fw_primal(/*level=*/0));
  result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  return result;
}

} // namespace weft
