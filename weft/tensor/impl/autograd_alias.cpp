#include "weft/tensor/impl/autograd_alias.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>

namespace weft {

bool is_recorded(const at::Tensor& tensor) {
  return tensor.requires_grad() && at::GradMode::is_enabled();
}

at::Tensor untracked(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_tensor_metadata_change=*/true));
}

at::Tensor view_of(const at::Tensor& base, const at::Tensor& alias) {
  return torch::autograd::as_view(
      base, alias, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true, /*view_func=*/nullptr,
      /*rev_view_func=*/nullptr, torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
}

void share_version(const at::Tensor& tensor, const at::Tensor& other) {
  // A tensor made in inference mode has no version counter.
  if (tensor.is_inference() == other.is_inference()) {
    tensor.unsafeGetTensorImpl()->set_version_counter(other.unsafeGetTensorImpl()->version_counter());
  }
}

} // namespace weft
