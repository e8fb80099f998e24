#pragma once

#include "python/bindings/bindings.h"

#include "weft/tensor/impl/dtensor_impl.h"

#include <c10/util/flat_hash_map.h>

namespace weft::python {

/// The memory of the tensors at the boundary of a compiled region. Tensors that share memory, arguments and results, get one
/// version counter, and distributed ones one LocalMemory, so that autograd and copied views notice what is written to any of
/// them, as in eager mode:
///
///   memory = RegionMemory(arguments)     x
///   results = run(...)                   the local tensor of x[:, 1:]
///   memory.distributed(result)           writes to x[:, 1:] count as writes to x
///
/// Arguments are held weakly, so that the region may free them.
class RegionMemory {
 public:
  explicit RegionMemory(const py::sequence& arguments);

  /// A distributed result. Where it shares memory with another distributed tensor it is a view, so that autograd refuses to
  /// write to it in place where the other's graph would not know.
  at::Tensor distributed(at::Tensor result);
  /// A plain result: itself, or such a view of the memory of a distributed tensor.
  at::Tensor plain(const at::Tensor& result);
  /// What forward saves for backward, which raises where it was written to.
  at::Tensor saved(const at::Tensor& local);
  static constexpr int64_t kUnknown = -1;
  static constexpr int64_t kNone = -2;
  /// Whether a saved tensor is what the region was given for a parameter, which notices writes as it is. `number` is that of the
  /// parameter in the call before, where it is looked for first. What was none before is not looked for again: saved() is right for
  /// each tensor.
  bool is_parameter(const at::Tensor& local, int64_t& number) const;

 private:
  /// The first tensor that has this memory; undefined if there is none.
  at::Tensor owner_of(const at::Tensor& local) const;
  void add_owner(const at::Tensor& local, const at::Tensor& tensor);

  ska::flat_hash_map<c10::StorageImpl*, c10::weak_intrusive_ptr<c10::TensorImpl>> owners_;
  std::vector<const c10::TensorImpl*> parameters_; // what the region was given for them
};

} // namespace weft::python
