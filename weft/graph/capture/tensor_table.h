#pragma once

#include "weft/graph/capture/trace.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace weft::graph {

/// Maps tensors to the values of a trace. Tensor objects with the same memory, sizes and strides are the same value,
/// because autograd returns saved tensors as other objects. A tensor and a view of it are two values. An in-place write
/// makes a new value, which becomes the value of the tensor and of its memory.
///
/// The table keeps the addresses, not the tensors, but no address is used again while it exists: an address identifies
/// a tensor.
class TensorTable {
 public:
  std::optional<ValueId> find(const at::Tensor& tensor) const;
  /// The value of this very object, if it was not changed since.
  std::optional<ValueId> find_object(const at::Tensor& tensor) const;
  void set(const at::Tensor& tensor, ValueId value);

  /// The address that identifies the tensor's memory, for a distributed tensor that of its local tensor; nullptr if it
  /// has none.
  static const void* memory(const at::Tensor& tensor);

  /// Notes that an operator of this name allocated the memory, unless the memory belongs to a value.
  void set_hidden(const at::Tensor& tensor, const std::string& op);
  /// The name of the operator that allocated the tensor's memory internally; nullptr if that is not known.
  const std::string* hidden_in(const at::Tensor& tensor) const;

  /// Whether a value has memory in common with this tensor's storage.
  bool has_memory_of(const at::Tensor& tensor) const;
  /// A value whose memory this tensor shares without being that value.
  std::optional<ValueId> overlapping(const at::Tensor& tensor) const;

 private:
  struct Object {
    using Reserved = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
    Reserved reserved;
    std::string key;
    ValueId value;
  };
  struct Span {
    int64_t begin; // bytes
    int64_t end;
    ValueId value;
  };
  struct Memory {
    c10::weak_intrusive_ptr<c10::StorageImpl> reserved;
    std::vector<Span> spans;
    std::string hidden_in;
  };
  Memory* memory_of(const at::Tensor& tensor);
  const Memory* memory_of(const at::Tensor& tensor) const;

  std::unordered_map<const c10::TensorImpl*, Object> objects_;
  std::unordered_map<std::string, ValueId> values_; // by memory and view
  std::unordered_map<const c10::StorageImpl*, Memory> memories_;
};

} // namespace weft::graph
