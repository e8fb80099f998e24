#include "weft/graph/capture/tensor_table.h"

#include "weft/tensor/impl/dtensor_impl.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The tensor that owns the memory: for a distributed tensor, its local tensor.
const at::Tensor& holder(const at::Tensor& tensor) {
  const auto* distributed = as_dtensor(tensor);
  return distributed == nullptr ? tensor : distributed->local();
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  const auto& held = holder(tensor);
  return held.defined() && held.has_storage() ? held.storage().unsafeGetStorageImpl() : nullptr;
}

template <class T>
void append(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// A key of the memory and the view of it, as bytes. A tensor without memory is identified by its object.
std::string key_of(const at::Tensor& tensor) {
  std::string key;
  const auto& held = holder(tensor);
  const auto* storage = storage_of(tensor);
  append(key, reinterpret_cast<uintptr_t>(storage));
  if (storage == nullptr) {
    append(key, reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl()));
    return key;
  }
  const auto* distributed = as_dtensor(tensor);
  append(key, distributed == nullptr ? nullptr : distributed->spec().get());
  append(key, held.storage_offset());
  append(key, held.scalar_type());
  append(key, held.is_conj());
  append(key, held.is_neg());
  for (int64_t d = 0; d < held.dim(); ++d) {
    append(key, held.size(d));
    append(key, held.stride(d));
  }
  return key;
}

/// The range from the first byte to the byte after the last.
std::pair<int64_t, int64_t> bytes_of(const at::Tensor& tensor) {
  const auto& held = holder(tensor);
  const auto item = static_cast<int64_t>(held.itemsize());
  int64_t last = 0;
  for (int64_t d = 0; d < held.dim(); ++d) {
    last += (held.size(d) - 1) * held.stride(d);
  }
  const auto begin = held.storage_offset() * item;
  return {begin, held.numel() == 0 ? begin : begin + (last + 1) * item};
}

} // namespace

const void* TensorTable::memory(const at::Tensor& tensor) {
  return storage_of(tensor);
}

TensorTable::Memory* TensorTable::memory_of(const at::Tensor& tensor) {
  const auto* storage = storage_of(tensor);
  if (storage == nullptr) {
    return nullptr;
  }
  const auto found = memories_.find(storage);
  if (found != memories_.end()) {
    return &found->second;
  }
  return &memories_.emplace(storage, Memory{holder(tensor).storage().getWeakStorageImpl(), {}, {}}).first->second;
}

const TensorTable::Memory* TensorTable::memory_of(const at::Tensor& tensor) const {
  const auto found = memories_.find(storage_of(tensor));
  return found == memories_.end() ? nullptr : &found->second;
}

std::optional<ValueId> TensorTable::find_object(const at::Tensor& tensor) const {
  const auto found = objects_.find(tensor.unsafeGetTensorImpl());
  const bool is_same = found != objects_.end() && found->second.key == key_of(tensor);
  return is_same ? std::optional(found->second.value) : std::nullopt;
}

std::optional<ValueId> TensorTable::find(const at::Tensor& tensor) const {
  if (const auto value = find_object(tensor)) {
    return value;
  }
  const auto found = values_.find(key_of(tensor));
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

void TensorTable::set(const at::Tensor& tensor, ValueId value) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  auto key = key_of(tensor);
  if (const auto found = objects_.find(impl); found != objects_.end()) {
    found->second.key = key;
    found->second.value = value;
  } else {
    objects_.emplace(impl, Object{Object::Reserved(tensor.getIntrusivePtr()), key, value});
  }
  if (auto* memory = memory_of(tensor)) {
    if (values_.insert_or_assign(std::move(key), value).second) {
      const auto [begin, end] = bytes_of(tensor);
      memory->spans.push_back({begin, end, value});
    }
  }
}

void TensorTable::set_hidden(const at::Tensor& tensor, const std::string& op) {
  auto* memory = memory_of(tensor);
  if (memory != nullptr && memory->spans.empty() && memory->hidden_in.empty()) {
    memory->hidden_in = op;
  }
}

const std::string* TensorTable::hidden_in(const at::Tensor& tensor) const {
  const auto* memory = memory_of(tensor);
  return memory == nullptr || memory->hidden_in.empty() ? nullptr : &memory->hidden_in;
}

bool TensorTable::has_memory_of(const at::Tensor& tensor) const {
  const auto* memory = memory_of(tensor);
  return memory != nullptr && !memory->spans.empty();
}

std::optional<ValueId> TensorTable::overlapping(const at::Tensor& tensor) const {
  const auto* memory = memory_of(tensor);
  if (memory == nullptr) {
    return std::nullopt;
  }
  const auto [begin, end] = bytes_of(tensor);
  const auto found = std::find_if(memory->spans.begin(), memory->spans.end(), [&](const Span& span) {
    return span.begin < end && begin < span.end;
  });
  return found == memory->spans.end() ? std::nullopt : std::optional(found->value);
}

} // namespace weft::graph
