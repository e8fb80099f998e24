#pragma once

#include "weft/tensor/dtensor_impl.h"

#include <optional>

namespace weft {

/// What the functions between plain and distributed tensors have in common: where gradients lie, and what is checked.

Layout all_replicated(const DeviceMesh& mesh);

/// Raises unless there is one placement per mesh dim; counts negative dims from the end.
Layout checked_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t tensor_rank);
/// Raises for a partial placement as well.
Layout checked_whole_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t tensor_rank);

/// Raises for a tensor without memory that could be sharded along its dims: one of another layout (sparse, nested), and one
/// that wraps others (a subclass with __torch_dispatch__, a functional tensor, one of torch.func's).
void check_has_dense_memory(const char* where, const at::Tensor& tensor);

/// The tensor on a device of the mesh's type; one without data stays as it is.
at::Tensor on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor);

/// Where the gradient of a tensor of this layout lies unless asked otherwise: as the tensor, and replicated where that
/// is partial, since the gradient of a sum is that of each of its terms.
Layout default_gradient_layout(const Layout& layout);
/// The layout asked for, else the default. Raises unless the local gradient then has the shape of the local tensor.
Layout checked_gradient_layout(const char* where, const TensorSpec& spec, const std::optional<Layout>& asked);

/// The layout in which P(avg) is P(sum): of the terms that are left when the division is done apart.
Layout as_terms(const Layout& layout);
/// How many ranks an average is taken over: the gradient of each of its terms is that of the average divided by this.
int64_t averaged_over(const TensorSpec& spec);
/// Raises where a local tensor of this spec has no gradient that is known from that of the distributed one.
void check_has_gradient(const char* where, const TensorSpec& spec);

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
