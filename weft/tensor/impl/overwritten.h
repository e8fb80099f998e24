#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace weft {

/// Whether two local tensors have elements in one storage, so that a write to one of them may change the other. Torch's
/// kernels raise if an operand overlaps with the output in memory, but only if it is not empty: a rank with an empty
/// shard would go on while other ranks raise. Weft copies such an operand before the call instead, on every rank.
C10_ALWAYS_INLINE bool share_storage(const at::Tensor& a, const at::Tensor& b) {
  const auto* storage = a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  return storage != nullptr && storage == b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() &&
      a.numel() > 0 && b.numel() > 0;
}
/// Whether two tensors of one storage consist of the same elements in the same order. A pointwise operator may then
/// read one and write the other, because it reads each element before it writes it.
inline bool are_same_elements(const at::Tensor& a, const at::Tensor& b) {
  return a.is_same(b) ||
      (a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides());
}
bool are_same_elements(const auto& /*tensors*/, const auto& /*tensors*/) {
  return false;
}
inline bool share_storage(const at::Tensor& a, const std::optional<at::Tensor>& b) {
  return b.has_value() && share_storage(a, *b);
}
/// Compares the tensors at the same position in two lists, because a foreach operator reads and writes these together.
inline bool share_storage(at::TensorList a, at::TensorList b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (share_storage(a[i], b[i])) {
      return true;
    }
  }
  return false;
}
inline bool share_storage(at::TensorList a, const at::Tensor& b) {
  return std::any_of(a.begin(), a.end(), [&](const at::Tensor& each) { return share_storage(each, b); });
}
inline bool share_storage(const at::Tensor& a, at::TensorList b) {
  return share_storage(b, a);
}
bool share_storage(const auto& /*a tensor*/, const auto& /*no tensor*/) {
  return false;
}

} // namespace weft
