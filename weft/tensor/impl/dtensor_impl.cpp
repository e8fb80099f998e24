#include "weft/tensor/impl/dtensor_impl.h"

#include "weft/tensor/impl/kept_memory.h"

namespace weft {

namespace {

/// Autocast recognizes a tensor by a dispatch key of its device. A tensor without data (meta) gets the keys that it
/// will have on the mesh's device, because data may be put in its place later.
c10::DispatchKeySet keys_on(c10::Device device, const TensorSpec& spec) {
  constexpr c10::DispatchKeySet kOwn(kDTensorKey);
  const auto type = device.is_meta() ? spec.mesh().device_type() : device.type();
  return type == c10::kCPU ? kOwn.add(c10::DispatchKey::AutocastCPU)
      : type == c10::kCUDA ? kOwn.add(c10::DispatchKey::AutocastCUDA)
                           : kOwn;
}

/// Copies the lazy conjugate and negative bits of the local tensor to the global one, for callers that read its memory.
/// A local tensor that a collective still writes has neither.
inline void take_lazy_signs(DTensorImpl& impl, const at::Tensor& local) {
  constexpr c10::DispatchKeySet kSigns({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  if (C10_UNLIKELY((local.key_set() ^ impl.key_set()).has_any(kSigns))) {
    impl._set_conj(local.is_conj());
    impl._set_neg(local.is_neg());
  }
}

at::Tensor if_there(const AsyncTensor& local) {
  return local.ready() ? local.wait() : at::Tensor();
}

} // namespace

void* DTensorImpl::operator new(size_t /*size*/) {
  return KeptMemory<sizeof(DTensorImpl)>::take();
}

void DTensorImpl::operator delete(void* memory) noexcept {
  KeptMemory<sizeof(DTensorImpl)>::give_back(memory);
}

inline void DTensorImpl::take_sizes_from(const DTensorImpl& like) {
  sizes_and_strides_ = like.sizes_and_strides_;
  numel_ = like.numel_;
  is_contiguous_ = like.is_contiguous_;
  is_channels_last_ = like.is_channels_last_;
  is_channels_last_contiguous_ = like.is_channels_last_contiguous_;
  is_channels_last_3d_ = like.is_channels_last_3d_;
  is_channels_last_3d_contiguous_ = like.is_channels_last_3d_contiguous_;
  is_non_overlapping_and_dense_ = like.is_non_overlapping_and_dense_;
}

DTensorImpl::DTensorImpl(AsyncTensor local, SpecPtr spec, c10::Device device)
    : TensorImpl(keys_on(device, *spec), c10::scalarTypeToTypeMeta(spec->dtype()), device),
      local_(std::move(local)),
      spec_(std::move(spec)) {
  set_storage_access_should_throw();
  take_sizes_from_spec();
  take_lazy_signs(*this, if_there(local_));
}

inline DTensorImpl::DTensorImpl(const DTensorImpl& like, at::Tensor&& local, c10::Device device)
    : TensorImpl(keys_on(device, *like.spec_), like.data_type_, device),
      local_(std::move(local)),
      spec_(like.spec_),
      is_cast_parameter_(like.is_cast_parameter_) {
  set_storage_access_should_throw();
  take_sizes_from(like);
  take_lazy_signs(*this, local_.wait());
}

DTensorImpl::DTensorImpl(const DTensorImpl& like, AsyncTensor local, c10::Device device)
    : TensorImpl(keys_on(device, *like.spec_), like.data_type_, device), local_(std::move(local)), spec_(like.spec_) {
  set_storage_access_should_throw();
  take_sizes_from(like);
  take_lazy_signs(*this, if_there(local_));
}

/// A view is an inference tensor if its base is one, in whatever mode the view is taken. Inference tensors have none of
/// these keys.
C10_NOINLINE void DTensorImpl::take_view_keys(const DTensorImpl& base) {
  constexpr auto kTracked = c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  key_set_ = (key_set_ - kTracked) | (base.key_set_ & kTracked);
  version_counter_ = is_inference() ? c10::VariableVersion() : c10::VariableVersion(0);
}

C10_ALWAYS_INLINE void DTensorImpl::attach_to(const DTensorImpl& base, int64_t offset, bool is_copy) {
  storage_offset_ = base.storage_offset_ + offset;
  if (C10_UNLIKELY((key_set_ ^ base.key_set_).has(c10::DispatchKey::ADInplaceOrView))) {
    take_view_keys(base);
  }
  if (C10_LIKELY(!is_copy && base.rare_.find() == nullptr && rare_.find() == nullptr)) {
    memory_.set(base.memory());
  } else {
    become_view_of_copy(base, is_copy);
  }
}

void DTensorImpl::become_view(const DTensorImpl& base, int64_t offset, bool is_copy) {
  attach_to(base, offset, is_copy);
}

/// The rest of become_view where either tensor may be a copy.
C10_NOINLINE void DTensorImpl::become_view_of_copy(const DTensorImpl& base, bool is_copy) {
  if (base.is_copy_of_base()) {
    rare_.make().copied = base.rare_.find()->copied;
  }
  if (!is_copy) {
    memory_.set(base.memory());
  } else if (!base.is_copy_of_base()) {
    auto& copied = rare_.make().copied;
    copied.memory = base.memory();
    copied.writes = copied.memory->writes();
    copied.version = base.version_counter_.enabled() ? base.version_counter_.current_version() : 0;
  }
  if (is_copy_of_base() && base.version_counter_.enabled() && !is_inference()) {
    version_counter_ = base.version_counter_; // below autograd no other code makes views share it
  }
}

bool DTensorImpl::has_changed_since_copied() const {
  const auto& copied = rare_.find()->copied;
  return copied.memory->writes() != copied.writes || copied.memory->misses_writes() ||
      (version_counter_.enabled() && version_counter_.current_version() != copied.version);
}

std::string DTensorImpl::why_stale() const {
  const bool misses_writes = is_copy_of_base() ? rare_.find()->copied.memory->misses_writes() : memory_.misses_writes();
  if (!misses_writes) {
    return " is a view that had to be redistributed, and the tensor it was taken of has changed since. Take the view "
           "again, or redistribute that tensor first.";
  }
  return c10::str(
      is_copy_of_base() ? " is" : " has",
      " a view that had to be redistributed, and to_local() or full_tensor() of such "
      "a view was written to, which does not change the tensor it was taken of. Write to the distributed tensor or to "
      "its own to_local(), or clone what to_local() gives before writing to it.");
}

const c10::VariableVersion& DTensorImpl::version_of_local() {
  return is_copy_of_base() ? rare_.find()->copied.memory->writes_to_copies()
      : is_inference()     ? memory()->plain_writes()
                           : version_counter_;
}

void DTensorImpl::take_copied(const DTensorImpl& other) {
  if (!other.is_copy_of_base()) {
    if (is_copy_of_base()) {
      rare_.find()->copied = {};
    }
    return;
  }
  auto& copied = rare_.make().copied;
  copied = other.rare_.find()->copied;
  if (version_counter_.enabled()) {
    copied.version = version_counter_.current_version() - (other.is_stale() ? 1 : 0);
  }
}

void DTensorImpl::release_resources() {
  TensorImpl::release_resources();
  local_ = AsyncTensor();
  memory_.reset();
  rare_.reset();
}

void DTensorImpl::take_sizes_from_spec() {
  sizes_and_strides_.set_sizes(spec_->sizes());
  sizes_and_strides_.set_strides(spec_->strides());
  refresh_numel();
  refresh_contiguous();
}

template <class Version>
c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::detached_copy(
    const DTensorImpl& like,
    Version&& version,
    bool allow_tensor_metadata_change) const {
  auto copy = c10::make_intrusive<DTensorImpl>(like, local_, device());
  copy->storage_offset_ = storage_offset_;
  // The copy is an inference tensor if the original is one, which these keys say.
  copy->key_set_ = key_set_;
  // An inference tensor has no version counter. As with plain tensors, a copy that is detached outside of inference
  // mode has one, so that it may be written to.
  if (!copy->is_inference()) {
    copy->version_counter_ = std::forward<Version>(version);
  }
  copy->memory_.set(memory());
  copy->take_copied(*this);
  copy->set_allow_tensor_metadata_change(allow_tensor_metadata_change);
  return copy;
}

bool DTensorImpl::is_dispatched_by_python() const {
  constexpr auto kPython = c10::DispatchKey::Python;
  return C10_UNLIKELY(key_set_.has(kPython)) && !c10::impl::tls_is_dispatch_key_excluded(kPython);
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::relabelled(const DTensorImpl& like) const {
  return detached_copy(like, version_counter_, /*allow_tensor_metadata_change=*/true);
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version,
    bool allow_tensor_metadata_change) const {
  return is_dispatched_by_python() ? TensorImpl::shallow_copy_and_detach(version, allow_tensor_metadata_change)
                                   : detached_copy(*this, version, allow_tensor_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> DTensorImpl::shallow_copy_and_detach(
    c10::VariableVersion&& version,
    bool allow_tensor_metadata_change) const {
  return is_dispatched_by_python()
      ? TensorImpl::shallow_copy_and_detach(std::move(version), allow_tensor_metadata_change)
      : detached_copy(*this, std::move(version), allow_tensor_metadata_change);
}

void DTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& other) {
  TORCH_CHECK_TYPE(
      other->key_set().has(kDTensorKey),
      "[DTensorImpl] only a distributed tensor can be put in the place of one, but got a plain one of shape ",
      other->sizes(), ". Make one with from_local or distribute_tensor.");
  const auto* from = static_cast<const DTensorImpl*>(other.get());
  // As in torch: an inference tensor whose data is put in the place of another tensor's stays an inference tensor.
  key_set_ = (from->key_set_ - c10::python_ks) | (key_set_ & c10::python_ks);
  local_ = from->local_;
  spec_ = from->spec_;
  data_type_ = from->data_type_;
  storage_offset_ = from->storage_offset_;
  memory_.set(from->memory());
  take_copied(*from);
  forget_results();
  device_opt_ = from->device_opt_;
  take_sizes_from_spec();
  take_lazy_signs(*this, if_there(local_));
}

namespace {

void (*show)(const at::Tensor&) = nullptr;

} // namespace

void show_to_tracer_by(void (*given)(const at::Tensor&)) {
  show = given;
}

at::Tensor show_to_tracer(at::Tensor tensor) {
  if (show != nullptr) {
    show(tensor);
  }
  return tensor;
}

at::Tensor make_dtensor(AsyncTensor local, SpecPtr spec, c10::Device device) {
  const bool traced = is_traced(if_there(local));
  auto result = at::detail::make_tensor<DTensorImpl>(std::move(local), std::move(spec), device);
  if (C10_UNLIKELY(traced)) {
    result = show_to_tracer(std::move(result));
  }
  return result;
}

namespace {

C10_ALWAYS_INLINE at::Tensor made_like(const DTensorImpl& like, at::Tensor&& local) {
  const bool traced = is_traced(local);
  const auto device = local.device();
  at::Tensor result(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(
      c10::make_intrusive<DTensorImpl>(like, std::move(local), device).release()));
  if (C10_UNLIKELY(traced)) {
    result = show_to_tracer(std::move(result));
  }
  return result;
}

} // namespace

[[gnu::flatten]] at::Tensor make_dtensor_like(const DTensorImpl& like, at::Tensor&& local) {
  return made_like(like, std::move(local));
}

[[gnu::flatten]] at::Tensor make_view_like(
    const DTensorImpl& like,
    at::Tensor&& local,
    const DTensorImpl& base,
    int64_t offset,
    bool is_copy) {
  auto view = made_like(like, std::move(local));
  static_cast<DTensorImpl*>(view.unsafeGetTensorImpl())->attach_to(base, offset, is_copy);
  return view;
}

} // namespace weft
