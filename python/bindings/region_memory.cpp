#include "python/bindings/region_memory.h"

#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/autograd_alias.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace weft::python {

namespace {

/// Without counting a reference.
c10::StorageImpl* storage_of(const at::Tensor& local) {
  return local.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

} // namespace

RegionMemory::RegionMemory(const py::sequence& arguments) {
  owners_.reserve(arguments.size());
  for (const auto argument : arguments) {
    if (THPVariable_Check(argument.ptr())) {
      const auto& tensor = THPVariable_Unpack(argument.ptr());
      const auto* impl = as_dtensor(tensor);
      add_owner(impl == nullptr ? tensor : impl->local(), tensor);
      if (const auto* kept = impl == nullptr ? nullptr : impl->kept_counting_local()) {
        parameters_.push_back(kept->unsafeGetTensorImpl());
      }
    }
  }
}

void RegionMemory::add_owner(const at::Tensor& local, const at::Tensor& tensor) {
  if (local.defined() && local.has_storage()) {
    owners_.emplace(storage_of(local), c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()));
  }
}

at::Tensor RegionMemory::owner_of(const at::Tensor& local) const {
  const auto found = local.has_storage() ? owners_.find(storage_of(local)) : owners_.end();
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

bool RegionMemory::is_parameter(const at::Tensor& local, int64_t& number) const {
  const auto* impl = local.unsafeGetTensorImpl();
  if (number == kNone ||
      (number < static_cast<int64_t>(parameters_.size()) && number >= 0 && parameters_[number] == impl)) {
    return number != kNone;
  }
  const auto found = std::find(parameters_.begin(), parameters_.end(), impl);
  number = found == parameters_.end() ? kNone : found - parameters_.begin();
  return number != kNone;
}

at::Tensor RegionMemory::saved(const at::Tensor& local) {
  const auto owner = owner_of(local);
  auto* base = owner.defined() ? as_dtensor(owner) : nullptr;
  return base == nullptr ? local : counting_writes(*base, local);
}

} // namespace weft::python
