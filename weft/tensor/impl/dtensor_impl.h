#pragma once

#include "weft/comm/pending.h"
#include "weft/core/tensor_spec.h"
#include "weft/tensor/impl/local_memory.h"

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

namespace weft {

struct SharedMove;

/// The dispatch key of distributed tensors.
constexpr auto kDTensorKey = c10::DispatchKey::PrivateUse2;

/// A distributed tensor: global sizes and strides, the real device, this rank's local tensor and the spec. It has no
/// storage of its own; views share the storage of their base's local tensor.
class DTensorImpl : public c10::TensorImpl {
 public:
  DTensorImpl(AsyncTensor local, SpecPtr spec, c10::Device device);
  /// Of the same spec as another one, which has worked out what follows from it, and what has become of it so far.
  DTensorImpl(const DTensorImpl& like, at::Tensor&& local);

  /// This rank's part; waits for it the first time where it is still on its way.
  const at::Tensor& local() const {
    return local_.wait();
  }
  const SpecPtr& spec() const {
    return spec_;
  }

  /// What has happened to the memory of the local tensor.
  LocalMemoryPtr memory() const {
    return memory_.get();
  }
  /// A kernel is about to write to the local tensor.
  void count_write() const {
    memory_.count_write();
  }

  /// Makes this a view of `base` that begins `offset` elements after it in the global tensor. A copy had to be redistributed
  /// and shares no memory with its base: it must not be written to, nor read once the base has changed.
  void become_view(const DTensorImpl& base, int64_t offset, bool is_copy);
  bool is_copy_of_base() const {
    return copied_.memory.defined();
  }
  /// Whether what this holds is out of date: the tensor that this is a copy of has changed since, or somebody has written
  /// to the to_local() of a copied view of this, or of the same tensor as this.
  bool is_stale() const {
    return is_copy_of_base() ? has_changed_since_copied() : memory_.misses_writes();
  }
  /// What to say of one that is.
  std::string why_stale() const;
  /// The version that counts writes to the plain tensor that to_local() gives.
  const c10::VariableVersion& version_of_local();

  bool has_gradient_layout() const {
    return gradient_layout_claimed_;
  }
  /// True once: whoever asks first sees to it that gradients of this leaf lie as it does.
  bool claim_gradient_layout() {
    return !std::exchange(gradient_layout_claimed_, true);
  }

  /// What redistribute_once made of this tensor last.
  const std::shared_ptr<SharedMove>& shared_move() const {
    return shared_move_;
  }
  void share_move(std::shared_ptr<SharedMove> move) {
    shared_move_ = std::move(move);
  }

  /// A parameter in another dtype, as autocast makes them: it counts as the parameter where operators choose what to move.
  bool is_cast_parameter() const {
    return is_cast_parameter_;
  }
  void become_cast_parameter() {
    is_cast_parameter_ = true;
  }

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version,
      bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version,
      bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) override;
  /// When the last owner is gone, though somebody may still hold a weak pointer.
  void release_resources() override;

 private:
  template <class Version>
  c10::intrusive_ptr<TensorImpl> detached_copy(Version&& version, bool allow_tensor_metadata_change) const;
  void take_sizes_from_spec();
  bool has_changed_since_copied() const;
  /// Takes over what `other`, of the same values, is a copy of. Versions may be counted anew here; what is stale stays so.
  void take_copied(const DTensorImpl& other);
  /// torch says "Cannot access storage of" this.
  const char* tensorimpl_type_name() const override {
    return "weft::DTensorImpl: each rank holds a part of a distributed tensor. Use to_local for the memory of this "
           "rank's part, or full_tensor for that of the global tensor";
  }

  AsyncTensor local_;
  SpecPtr spec_;
  LazyLocalMemory memory_;
  /// Where and when a view that had to be copied was copied; no memory for others. Autograd makes views share their base's
  /// version, by which writes through plain tensors of the same memory are noticed.
  struct Copied {
    LocalMemoryPtr memory;
    uint64_t writes = 0;
    uint32_t version = 0;
  };
  Copied copied_;
  bool gradient_layout_claimed_ = false;
  bool is_cast_parameter_ = false;
  std::shared_ptr<SharedMove> shared_move_;
};

/// A functional tensor (functionalization, torch.export) has all keys of the one that it wraps, and one more.
inline bool is_dtensor(const at::TensorBase& tensor) {
  constexpr c10::DispatchKeySet kOwn(kDTensorKey);
  constexpr auto kOwnOrFunctional = kOwn.add(c10::DispatchKey::Functionalize);
  return tensor.defined() && (tensor.unsafeGetTensorImpl()->key_set() & kOwnOrFunctional) == kOwn;
}

/// The implementation behind a distributed tensor; nullptr for any other.
inline DTensorImpl* as_dtensor(const at::TensorBase& tensor) {
  return is_dtensor(tensor) ? static_cast<DTensorImpl*>(tensor.unsafeGetTensorImpl()) : nullptr;
}

at::Tensor make_dtensor(AsyncTensor local, SpecPtr spec, c10::Device device);
inline at::Tensor make_dtensor_like(const DTensorImpl& like, at::Tensor&& local) {
  return at::detail::make_tensor<DTensorImpl>(like, std::move(local));
}
inline at::Tensor make_dtensor(const at::Tensor& local, SpecPtr spec) {
  const auto device = local.device();
  return make_dtensor(AsyncTensor(local), std::move(spec), device);
}

} // namespace weft
