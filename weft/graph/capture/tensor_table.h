#pragma once

#include "weft/graph/capture/trace.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace weft::graph {

/// Which value of a trace a tensor is. The same memory seen the same way is the same value, whichever tensor object says
/// so: autograd gives back what it saved as other objects. Memory seen in two ways, by a tensor and a view of it, is two
/// values. What is written in place gives a new value, which then is the one of the tensor and of its memory.
///
/// Nothing is kept alive, but no address is used again while the table lasts: an address says which tensor it was.
class TensorTable {
 public:
  std::optional<ValueId> find(const at::Tensor& tensor) const;
  /// Of this very object, unchanged.
  std::optional<ValueId> find_object(const at::Tensor& tensor) const;
  void set(const at::Tensor& tensor, ValueId value);

  /// Whose address stands for the tensor's memory, of a distributed one for that of its part; nullptr where it has none.
  static const void* memory(const at::Tensor& tensor);

  /// Notes memory that was taken inside of an operator, by the operator's name, unless it is a value's.
  void set_hidden(const at::Tensor& tensor, const std::string& op);
  /// The name of the operator inside of which the tensor's memory was taken; nullptr where that is not known.
  const std::string* hidden_in(const at::Tensor& tensor) const;

  /// A value whose memory this tensor shares, without being that value.
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
  std::unordered_map<std::string, ValueId> values_; // by memory, as seen
  std::unordered_map<const c10::StorageImpl*, Memory> memories_;
};

} // namespace weft::graph
