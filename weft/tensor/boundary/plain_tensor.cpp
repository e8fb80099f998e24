#include "weft/tensor/boundary/plain_tensor.h"

#include "weft/core/traced_tensor.h"

namespace weft {

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
      !keys.has(Key::Python) || is_of_tracer(tensor), "[", where,
      "] a tensor with memory of its own is required, but got one of shape ", tensor.sizes(),
      " whose subclass runs operators by itself (__torch_dispatch__). Give the tensor that it wraps.");
  TORCH_CHECK_TYPE(
      !keys.has(Key::Functionalize), "[", where,
      "] a tensor with memory of its own is required, but got a functional one of shape ", tensor.sizes(),
      ". Call it outside of what is functionalized or exported.");
  TORCH_CHECK_TYPE(
      !is_inside_transform(tensor), "[", where, "] a tensor with memory of its own is required, but got one of shape ",
      tensor.sizes(),
      " inside of a transform of torch.func (vmap, grad, jvp). Call it outside, and transform a function of "
      "distributed tensors.");
  TORCH_CHECK_TYPE(
      !tensor._is_zerotensor(), "[", where,
      "] a tensor with memory of its own is required, but got zeros without any of shape ", tensor.sizes(),
      ". Give its clone.");
}

bool is_inside_transform(const at::TensorBase& tensor) {
  constexpr c10::DispatchKeySet kTransforms(
      {c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Batched});
  return tensor.key_set().has_any(kTransforms);
}

bool is_on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor) {
  return tensor.is_meta() || tensor.device().type() == mesh.device_type();
}

at::Tensor on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor) {
  return is_on_device_of(mesh, tensor) ? tensor : tensor.to(c10::Device(mesh.device_type()));
}

} // namespace weft
