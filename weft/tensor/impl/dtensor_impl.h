#pragma once

#include "weft/comm/pending.h"
#include "weft/core/tensor_spec.h"
#include "weft/core/traced_tensor.h"
#include "weft/tensor/impl/lazy_value.h"
#include "weft/tensor/impl/local_memory.h"

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

namespace weft {

struct SharedMove;

/// The dispatch key of distributed tensors.
constexpr auto kDTensorKey = c10::DispatchKey::PrivateUse2;

/// A distributed tensor: global sizes and strides, the real device, this rank's local tensor and the spec. It has no
/// storage of its own; views share the storage of their base's local tensor.
class DTensorImpl final : public c10::TensorImpl {
 public:
  DTensorImpl(AsyncTensor local, SpecPtr spec, c10::Device device);
  /// A tensor with the spec of `like`. Copies the sizes, strides and flags that `like` has computed from the spec. For
  /// make_dtensor_like alone, in whose source file it is defined.
  inline DTensorImpl(const DTensorImpl& like, at::Tensor&& local, c10::Device device);

  /// As above, of a local tensor that a collective may still write.
  DTensorImpl(const DTensorImpl& like, AsyncTensor local, c10::Device device);

  /// Memory that this thread has kept of destroyed tensors: malloc and free take as many instructions as making and
  /// destroying the tensor.
  static void* operator new(size_t size);
  static void operator delete(void* memory) noexcept;

  /// This rank's local tensor. The first call waits if a collective still writes it.
  const at::Tensor& local() const {
    return local_.wait();
  }
  /// Whether a collective still writes the local tensor.
  bool is_pending() const {
    return !local_.ready();
  }
  const SpecPtr& spec() const {
    return spec_;
  }

  /// Counts the writes to the memory of the local tensor.
  LocalMemoryPtr memory() const {
    return memory_.get();
  }
  /// A kernel calls this before it writes to the local tensor.
  void count_write() const {
    memory_.count_write();
  }

  /// Makes this a view of `base` that begins `offset` elements after it in the global tensor. A copy had to be
  /// redistributed and shares no memory with its base: it must not be written to, nor read once the base has changed.
  void become_view(const DTensorImpl& base, int64_t offset, bool is_copy);
  bool is_copy_of_base() const {
    const auto* rare = rare_.find();
    return C10_UNLIKELY(rare != nullptr) && rare->copied.memory.defined();
  }
  /// Whether the values of this tensor are out of date: the tensor that this is a copy of has changed since, or the
  /// user has written to the to_local() of a copied view of this tensor, or of another view of the same base.
  bool is_stale() const {
    return is_copy_of_base() ? has_changed_since_copied() : memory_.misses_writes();
  }
  /// The rest of an error message about a stale tensor: why it is stale and what to do.
  std::string why_stale() const;
  /// The version counter of the plain tensor that to_local() returns.
  const c10::VariableVersion& version_of_local();

  bool has_gradient_layout() const {
    return gradient_layout_claimed_;
  }
  /// True for the first caller only, which must install the hook that keeps gradients of this leaf in the leaf's
  /// layout.
  bool claim_gradient_layout() {
    return !std::exchange(gradient_layout_claimed_, true);
  }

  /// The plain tensor that Python's to_local() has given, so that it gives the same object again; only with the GIL.
  at::Tensor given_local() const {
    const auto* rare = rare_.find();
    return rare == nullptr ? at::Tensor() : rare->given_local;
  }
  void keep_given_local(at::Tensor local) {
    rare_.make().given_local = std::move(local);
  }

  /// The plain tensor that compiled regions are given for a parameter, step after step (counting_local).
  const at::Tensor* kept_counting_local() const {
    const auto* rare = rare_.find();
    return rare != nullptr && rare->counting_local.defined() ? &rare->counting_local : nullptr;
  }
  const at::Tensor& keep_counting_local(at::Tensor local) {
    return rare_.make().counting_local = std::move(local);
  }

  /// The last result that redistribute_once computed for this tensor.
  std::shared_ptr<SharedMove> shared_move() const {
    const auto* rare = rare_.find();
    return rare == nullptr ? nullptr : rare->shared_move;
  }
  void share_move(std::shared_ptr<SharedMove> move) {
    rare_.make().shared_move = std::move(move);
  }

  /// Whether this is a parameter cast to another dtype, as by autocast. Operators then treat it like the parameter when
  /// they choose which operands to redistribute.
  bool is_cast_parameter() const {
    return is_cast_parameter_;
  }
  void become_cast_parameter() {
    is_cast_parameter_ = true;
  }

  /// A detached alias of this tensor with the spec of `like`, whose layout gives every rank the same local tensor (see
  /// have_same_locals). Both share one version counter, so that autograd notices a write to either of them.
  c10::intrusive_ptr<TensorImpl> relabelled(const DTensorImpl& like) const;

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version,
      bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version,
      bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) override;
  /// Called when the last owner is gone; weak pointers to the tensor may still exist.
  void release_resources() override;

 private:
  friend at::Tensor make_view_like(const DTensorImpl&, at::Tensor&&, const DTensorImpl&, int64_t, bool);

  C10_ALWAYS_INLINE void attach_to(const DTensorImpl& base, int64_t offset, bool is_copy);
  void take_view_keys(const DTensorImpl& base);
  void become_view_of_copy(const DTensorImpl& base, bool is_copy);
  template <class Version>
  c10::intrusive_ptr<TensorImpl> detached_copy(
      const DTensorImpl& like,
      Version&& version,
      bool allow_tensor_metadata_change) const;
  /// Whether a tracer sees that this tensor is copied.
  bool is_dispatched_by_python() const;
  void take_sizes_from_spec();
  void take_sizes_from(const DTensorImpl& like);
  bool has_changed_since_copied() const;
  /// Takes over from `other`, which has the same values, which memory they are a copy of. The version counter here may
  /// have another value than there; a stale tensor stays stale.
  void take_copied(const DTensorImpl& other);
  /// Torch prints this after "Cannot access storage of".
  const char* tensorimpl_type_name() const override {
    return "weft::DTensorImpl: each rank holds a local tensor of a distributed tensor. Use to_local for the memory of "
           "this rank's local tensor, or full_tensor for that of the global tensor";
  }

  /// For a view that had to be copied: the memory it was copied from, and that memory's counters at that time. Other
  /// tensors have no memory here. `version` also notices writes through plain tensors that share the base's memory,
  /// because autograd makes views share their base's version counter.
  struct Copied {
    LocalMemoryPtr memory;
    uint64_t writes = 0;
    uint32_t version = 0;
  };
  /// What few tensors have. Most are results of operators that never need it, and are made and destroyed faster without.
  /// One thread may keep a given local tensor, with the GIL, while another shares a move, without.
  struct Rare {
    Copied copied;
    std::shared_ptr<SharedMove> shared_move;
    at::Tensor given_local;
    at::Tensor counting_local;
  };
  /// Forgets what has been computed of the values.
  void forget_results() {
    if (auto* rare = rare_.find(); C10_UNLIKELY(rare != nullptr)) {
      rare->shared_move.reset();
      rare->given_local.reset();
      rare->counting_local.reset();
    }
  }

  AsyncTensor local_;
  SpecPtr spec_;
  LazyLocalMemory memory_;
  LazyValue<Rare> rare_;
  bool gradient_layout_claimed_ = false;
  bool is_cast_parameter_ = false;
};

/// A functional tensor (functionalization, torch.export) that wraps a distributed one has its keys too, but is none
/// itself.
inline bool is_dtensor(const at::TensorBase& tensor) {
  constexpr c10::DispatchKeySet kOwn(kDTensorKey);
  constexpr auto kOwnOrFunctional = kOwn.add(c10::DispatchKey::Functionalize);
  return tensor.defined() && (tensor.unsafeGetTensorImpl()->key_set() & kOwnOrFunctional) == kOwn;
}

/// The implementation of a distributed tensor; nullptr for any other tensor.
inline DTensorImpl* as_dtensor(const at::TensorBase& tensor) {
  return is_dtensor(tensor) ? static_cast<DTensorImpl*>(tensor.unsafeGetTensorImpl()) : nullptr;
}

/// A distributed tensor of a traced local tensor is an object of a Python class, so that the tracer gives operators on it
/// back to Weft's kernels instead of recording them. Every function that makes a tensor calls this. `show` gives a tensor
/// that class; it is set by the Python package.
void show_to_tracer_by(void (*show)(const at::Tensor&));
at::Tensor show_to_tracer(at::Tensor tensor);

at::Tensor make_dtensor(AsyncTensor local, SpecPtr spec, c10::Device device);
at::Tensor make_dtensor_like(const DTensorImpl& like, at::Tensor&& local);
/// The same as a view of `base`, see DTensorImpl::become_view.
at::Tensor make_view_like(
    const DTensorImpl& like,
    at::Tensor&& local,
    const DTensorImpl& base,
    int64_t offset,
    bool is_copy);
inline at::Tensor make_dtensor(const at::Tensor& local, SpecPtr spec) {
  const auto device = local.device();
  return make_dtensor(AsyncTensor(local), std::move(spec), device);
}

} // namespace weft
