#include "python/bindings/region_memory.h"

#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/autograd_alias.h"

#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

RegionMemory::RegionMemory(const py::sequence& arguments) {
  owners_.reserve(arguments.size());
  for (const auto argument : arguments) {
    if (THPVariable_Check(argument.ptr())) {
      const auto& tensor = THPVariable_Unpack(argument.ptr());
      const auto* impl = as_dtensor(tensor);
      add_owner(impl == nullptr ? tensor : impl->local(), tensor);
    }
  }
}

void RegionMemory::add_owner(const at::Tensor& local, const at::Tensor& tensor) {
  if (local.defined() && local.has_storage()) {
    owners_.emplace(
        local.storage().unsafeGetStorageImpl(), c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()));
  }
}

at::Tensor RegionMemory::owner_of(const at::Tensor& local) const {
  const auto found = local.has_storage() ? owners_.find(local.storage().unsafeGetStorageImpl()) : owners_.end();
  auto owner = found == owners_.end() ? c10::intrusive_ptr<c10::TensorImpl>() : found->second.lock();
  return owner == nullptr ? at::Tensor() : at::Tensor(std::move(owner));
}

at::Tensor RegionMemory::distributed(at::Tensor result) {
  auto& impl = *as_dtensor(result);
  const auto owner = owner_of(impl.local());
  if (!owner.defined()) {
    add_owner(impl.local(), result);
    return result;
  }
  if (const auto* base = as_dtensor(owner)) {
    impl.become_view(*base, /*offset=*/-base->storage_offset(), /*is_copy=*/false);
    share_version(result, owner);
    return view_of(untracked(result), result);
  }
  share_version(result, owner); // as from_local
  return result;
}

at::Tensor RegionMemory::plain(const at::Tensor& result) {
  const auto owner = owner_of(result);
  if (!owner.defined()) {
    add_owner(result, result);
    return result;
  }
  auto* base = as_dtensor(owner);
  if (base == nullptr) {
    return result; // torch knows of plain tensors that share memory
  }
  const auto alias = counting_writes(*base, result);
  return view_of(untracked(alias), alias);
}

at::Tensor RegionMemory::saved(const at::Tensor& local) {
  const auto owner = owner_of(local);
  auto* base = owner.defined() ? as_dtensor(owner) : nullptr;
  return base == nullptr ? local : counting_writes(*base, local);
}

} // namespace weft::python
