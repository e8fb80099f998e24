#include "weft/tensor/boundary.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

namespace weft {

namespace {

/// The cuts alone: every other placement, and that of a mesh dim of one rank, as R.
Layout cuts_of(const Layout& layout, const DeviceMesh& mesh) {
  auto cuts = layout;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    cuts = layout[m].is_shard() && mesh.size(m) > 1 ? cuts : cuts.with(m, Replicate());
  }
  return cuts;
}

bool is_linear(const Placement& placement) {
  return !placement.is_partial() || placement.reduce_op() == ReduceOp::Sum || placement.reduce_op() == ReduceOp::Avg;
}

bool is_linear(const Layout& layout) {
  return std::all_of(
      layout.placements().begin(), layout.placements().end(), [](const Placement& p) { return is_linear(p); });
}

} // namespace

Layout all_replicated(const DeviceMesh& mesh) {
  return Layout(Placements(mesh.ndim(), Replicate()));
}

Layout checked_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t tensor_rank) {
  TORCH_CHECK_VALUE(mesh.defined(), "[", where, "] a mesh is required, but got none. Make one with init_device_mesh.");
  TORCH_CHECK_VALUE(
      layout.ndim() == mesh.ndim(), "[", where, "] one placement per mesh dim is required, but got ", layout.ndim(),
      " placements ", layout, " for ", mesh, ". Use R for a mesh dim that does not cut the tensor.");
  return layout.normalized(tensor_rank);
}

Layout checked_whole_layout(const char* where, const DeviceMesh& mesh, const Layout& layout, int64_t tensor_rank) {
  auto result = checked_layout(where, mesh, layout, tensor_rank);
  TORCH_CHECK_VALUE(
      !result.has_partial(), "[", where, "] placements R and S are required, but got ", layout,
      ". A partial value comes out of operators only; use from_local to make one.");
  return result;
}

void check_has_dense_memory(const char* where, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !tensor.is_nested(), "[", where,
      "] a strided tensor is required, but got a nested one. Pad it with to_padded_tensor.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.layout() == c10::kStrided, "[", where, "] a strided tensor is required, but got one of layout ",
      tensor.layout(), ". Make it dense with to_dense.");
  using Key = c10::DispatchKey;
  const auto keys = tensor.key_set();
  TORCH_CHECK_TYPE(
      !keys.has(Key::Python), "[", where, "] a tensor with memory of its own is required, but got one of shape ",
      tensor.sizes(), " whose subclass runs operators by itself (__torch_dispatch__). Give the tensor that it wraps.");
  TORCH_CHECK_TYPE(
      !keys.has(Key::Functionalize), "[", where,
      "] a tensor with memory of its own is required, but got a functional one of shape ", tensor.sizes(),
      ". Call it outside of what is functionalized or exported.");
  TORCH_CHECK_TYPE(
      !keys.has(Key::FuncTorchBatched) && !keys.has(Key::FuncTorchGradWrapper), "[", where,
      "] a tensor with memory of its own is required, but got one of shape ", tensor.sizes(),
      " inside of a transform of torch.func (vmap, grad, jvp). Call it outside, and transform a function of "
      "distributed "
      "tensors.");
  TORCH_CHECK_TYPE(
      !tensor._is_zerotensor(), "[", where,
      "] a tensor with memory of its own is required, but got zeros without any of shape ", tensor.sizes(),
      ". Give its clone.");
}

at::Tensor on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor) {
  const bool is_there = tensor.is_meta() || tensor.device().type() == mesh.device_type();
  return is_there ? tensor : tensor.to(c10::Device(mesh.device_type()));
}

Layout default_gradient_layout(const Layout& layout) {
  auto result = layout;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    result = layout[m].is_partial() ? result.with(m, Replicate()) : result;
  }
  return result;
}

Layout checked_gradient_layout(const char* where, const TensorSpec& spec, const std::optional<Layout>& asked) {
  if (!asked) {
    return default_gradient_layout(spec.layout());
  }
  const auto& mesh = spec.mesh();
  TORCH_CHECK_VALUE(
      asked->ndim() == mesh.ndim(), "[", where, "] grad_placements must be one placement per mesh dim, but got ",
      asked->ndim(), " placements ", *asked, " for ", mesh, ".");
  auto result = asked->normalized(spec.dim());
  TORCH_CHECK_VALUE(
      is_linear(result), "[", where, "] grad_placements may be R, S, P(sum) and P(avg), but got ", result,
      ". Gradients add up.");
  TORCH_CHECK_VALUE(
      cuts_of(result, mesh) == cuts_of(spec.layout(), mesh), "[", where,
      "] grad_placements must cut the gradient as the tensor is cut, but got ", result, " for ", spec,
      ". Redistribute the tensor first where its gradient is to lie otherwise.");
  return result;
}

Layout as_terms(const Layout& layout) {
  auto result = layout;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    const bool is_average = layout[m].is_partial() && layout[m].reduce_op() == ReduceOp::Avg;
    result = is_average ? result.with(m, Partial()) : result;
  }
  return result;
}

int64_t averaged_over(const TensorSpec& spec) {
  int64_t ranks = 1;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto& placement = spec.layout()[m];
    ranks *= placement.is_partial() && placement.reduce_op() == ReduceOp::Avg ? spec.mesh().size(m) : 1;
  }
  return ranks;
}

void check_has_gradient(const char* where, const TensorSpec& spec) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      is_linear(spec.layout()), "[", where, "] gradients of P(sum) and P(avg) are known, but got ", spec,
      ". Detach the tensor, or reduce it to R with operators that have a gradient.");
}

bool is_recorded(const at::Tensor& tensor) {
  return tensor.requires_grad() && at::GradMode::is_enabled();
}

at::Tensor untracked(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_tensor_metadata_change=*/true));
}

at::Tensor view_of(const at::Tensor& tensor) {
  return torch::autograd::as_view(
      tensor, untracked(tensor), /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true);
}

void share_version(const at::Tensor& tensor, const at::Tensor& other) {
  // One made in inference mode has no version.
  if (tensor.is_inference() == other.is_inference()) {
    tensor.unsafeGetTensorImpl()->set_version_counter(other.unsafeGetTensorImpl()->version_counter());
  }
}

} // namespace weft
