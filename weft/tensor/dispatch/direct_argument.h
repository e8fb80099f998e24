#pragma once

#include "weft/tensor/dispatch/dtensor_kernel.h"

#include <ATen/core/IListRef.h>

namespace weft {

/// An argument of a direct call. `read` adds its words to the key, exactly as DTensorKernel does for an argument on a
/// stack, and returns false if the call needs the general kernel. `get` returns the argument for the local operator.
template <class T>
class DirectArgument;

/// The plain tensor itself; see read_direct_tensor.
C10_NOINLINE inline const at::Tensor* read_direct_plain(const at::Tensor& tensor, CallKey& key) {
  if (!tensor.defined()) {
    key.add(0);
    return &tensor;
  }
  if (tensor.dim() != 0 || tensor.requires_grad()) {
    return nullptr;
  }
  key.add(word_of_plain(tensor));
  key.add(0);
  return &tensor;
}

/// The local tensor of a distributed tensor, or a plain number itself. nullptr if the general kernel is needed: the
/// tensor is out of date, or is a leaf without the hook that keeps its gradient's layout, or is a plain tensor with
/// dims or a gradient.
C10_ALWAYS_INLINE const at::Tensor* read_direct_tensor(const at::Tensor& tensor, CallKey& key) {
  const auto* impl = as_dtensor(tensor);
  if (C10_UNLIKELY(impl == nullptr)) {
    return read_direct_plain(tensor, key);
  }
  const bool is_leaf = is_parameter(tensor);
  if (C10_UNLIKELY((is_leaf && !impl->has_gradient_layout()) || impl->is_stale())) {
    return nullptr;
  }
  key.add(word_of(*impl, is_leaf));
  return &impl->local();
}

template <>
class DirectArgument<const at::Tensor&> {
 public:
  C10_ALWAYS_INLINE bool read(const at::Tensor& tensor, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
    local_ = read_direct_tensor(tensor, key);
    return local_ != nullptr;
  }
  const at::Tensor& get() const {
    return *local_;
  }

 private:
  const at::Tensor* local_;
};

/// An argument that is written to. Operators change its elements and sizes, but do not assign another tensor to the
/// reference.
template <>
class DirectArgument<at::Tensor&> {
 public:
  C10_ALWAYS_INLINE bool read(const at::Tensor& tensor, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
    local_ = const_cast<at::Tensor*>(read_direct_tensor(tensor, key));
    return local_ != nullptr;
  }
  at::Tensor& get() const {
    return *local_;
  }

 private:
  at::Tensor* local_;
};

template <>
class DirectArgument<const std::optional<at::Tensor>&> {
 public:
  C10_ALWAYS_INLINE bool read(
      const std::optional<at::Tensor>& tensor,
      OperatorSchema::ArgumentKind /*kind*/,
      CallKey& key) {
    if (!tensor || !tensor->defined()) {
      key.add(0);
      return true;
    }
    const auto* local = read_direct_tensor(*tensor, key);
    if (local != nullptr) {
      local_ = *local;
    }
    return local != nullptr;
  }
  const std::optional<at::Tensor>& get() const {
    return local_;
  }

 private:
  std::optional<at::Tensor> local_;
};

/// Adds the words of a list's tensors to the key, and their local tensors to `locals`.
template <class Tensors, class Locals>
bool read_direct_list(const Tensors& tensors, CallKey& key, Locals& locals) {
  key.add(tensors.size());
  locals.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    const auto* local = read_direct_tensor(tensor, key);
    if (local == nullptr) {
      return false;
    }
    locals.push_back(*local);
  }
  return true;
}

template <>
class DirectArgument<at::TensorList> {
 public:
  bool read(at::TensorList tensors, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
    return read_direct_list(tensors, key, locals_);
  }
  at::TensorList get() const {
    return locals_;
  }

 private:
  std::vector<at::Tensor> locals_;
};

template <>
class DirectArgument<const at::ITensorListRef&> {
 public:
  bool read(const at::ITensorListRef& tensors, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
    const bool is_direct = read_direct_list(tensors, key, locals_);
    list_ = at::ITensorListRef(at::TensorList(locals_));
    return is_direct;
  }
  const at::ITensorListRef& get() const {
    return list_;
  }

 private:
  c10::SmallVector<at::Tensor, 8> locals_;
  at::ITensorListRef list_;
};

/// Adds the words of an argument that is no tensor to the key.
inline bool read_value(const at::Scalar& value, OperatorSchema::ArgumentKind kind, CallKey& key) {
  key.add_type(value);
  if (C10_UNLIKELY(kind != OperatorSchema::ArgumentKind::Value)) {
    if (kind != OperatorSchema::ArgumentKind::Fill) {
      return false;
    }
    key.add(value.equal(0) ? 1 : 0);
  }
  return !value.isSymbolic();
}
inline bool read_value(double /*value*/, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
  key.add(CallKey::kDouble);
  return true;
}
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
bool read_value(T value, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
  key.add(static_cast<uint64_t>(static_cast<int64_t>(value)));
  return true;
}
inline bool read_value(const c10::SymInt& value, OperatorSchema::ArgumentKind /*kind*/, CallKey& key) {
  const auto number = value.maybe_as_int();
  key.add(number.value_or(0));
  return number.has_value();
}
template <class T>
bool read_value(c10::ArrayRef<T> values, OperatorSchema::ArgumentKind kind, CallKey& key) {
  key.add(values.size());
  for (const auto& value : values) { // few: std::all_of is unrolled, which costs more than it saves
    if (!read_value(value, kind, key)) {
      return false;
    }
  }
  return true;
}
template <class T>
bool read_optional(const T& value, OperatorSchema::ArgumentKind kind, CallKey& key) {
  if (!value.has_value()) {
    key.add(CallKey::kNone);
    return true;
  }
  return read_value(*value, kind, key);
}
template <class T>
bool read_value(const std::optional<T>& value, OperatorSchema::ArgumentKind kind, CallKey& key) {
  return read_optional(value, kind, key);
}
template <class T>
bool read_value(const c10::OptionalArrayRef<T>& value, OperatorSchema::ArgumentKind kind, CallKey& key) {
  return read_optional(value, kind, key);
}

/// An argument that is no tensor, passed on as it is.
template <class T>
class DirectArgument {
 public:
  bool read(const std::remove_reference_t<T>& value, OperatorSchema::ArgumentKind kind, CallKey& key) {
    value_ = &value;
    return read_value(value, kind, key);
  }
  const std::remove_reference_t<T>& get() const {
    return *value_;
  }

 private:
  const std::remove_reference_t<T>* value_;
};

} // namespace weft
