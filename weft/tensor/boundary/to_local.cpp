#include "weft/tensor/boundary/to_local.h"

#include "weft/core/checked_layout.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/agreement.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/autograd_node.h"
#include "weft/tensor/impl/call_cache.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/open_sizes.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

/// A normal tensor that shares the memory of an inference tensor. Inference tensors have no version counter, normal
/// ones do.
at::Tensor normal_alias(const at::Tensor& local) {
  const c10::InferenceMode normal(false);
  auto alias = at::empty({0}, local.options());
  alias.set_(local.storage(), local.storage_offset(), local.sizes(), local.strides());
  alias._set_conj(local.is_conj());
  alias._set_neg(local.is_neg());
  return alias;
}

/// Applies `handle` to a tensor that shares memory with the local tensor. The result has the version counter by which the
/// distributed tensor notices writes.
template <class Handle>
at::Tensor counting(DTensorImpl& impl, const at::Tensor& local, const Handle& handle) {
  auto result = handle(local.is_inference() ? normal_alias(local) : local);
  result.unsafeGetTensorImpl()->set_version_counter(impl.version_of_local());
  return result;
}

c10::intrusive_ptr<DTensorImpl> gradient_like(const TensorSpec& spec, const Layout& layout, c10::Device device) {
  const auto strides = dense_strides(spec.sizes(), order_in_memory(spec));
  const auto gradient_spec = TensorSpec::make(spec.mesh(), layout, spec.sizes(), strides, spec.dtype());
  return c10::make_intrusive<DTensorImpl>(AsyncTensor(), gradient_spec, device);
}

/// A tensor without data like the gradient of a tensor of this spec, where the user gives no grad_placements. Kept in the
/// cache of calls.
const c10::intrusive_ptr<DTensorImpl>& known_gradient_like(const SpecPtr& spec, c10::Device device) {
  static const char kOfGradients = 0;
  CallKey key;
  key.add(reinterpret_cast<uintptr_t>(&kOfGradients));
  key.add(reinterpret_cast<uintptr_t>(spec.get()));
  key.add(std::hash<c10::Device>()(device));
  auto& cache = CallCache::of_thread();
  const auto* found = cache.find(key);
  if (found == nullptr) {
    PreparedCall call;
    call.operands = {spec};
    call.outputs.resize(1);
    call.outputs[0].like = gradient_like(*spec, without_partial(spec->layout()), device);
    found = &cache.add(key, std::move(call));
  }
  return found->outputs[0].like;
}

/// Makes the local gradient a distributed one.
class ToLocalNode : public UnaryNode {
 public:
  ToLocalNode(SpecPtr spec, c10::intrusive_ptr<DTensorImpl> like)
      : spec_(std::move(spec)), like_(std::move(like)), is_debugged_(debug_enabled()) {}

  at::Tensor backward(const at::Tensor& given) override {
    const auto& gradient_spec = *like_->spec();
    check_has_gradient("to_local", *spec_);
    if (is_debugged_ || debug_enabled()) {
      check_replicas_agree("to_local", given, gradient_spec, ReplicaClaim::Gradients);
    }
    const auto terms = averaged_over(*spec_);
    const auto gradient = terms == 1 ? given : given * terms;
    if (is_recorded(gradient) || has_tangent(gradient) || !gradient_spec.mesh().is_member() || !has_memory(gradient)) {
      const FromLocalOptions options{
          .shape = gradient_spec.sizes().vec(),
          .stride = gradient_spec.strides().vec(),
          .grad_placements = with_sums_for_averages(spec_->layout())};
      return from_local(gradient, gradient_spec.mesh(), gradient_spec.layout(), options);
    }
    return wrap_local(gradient, *like_);
  }
  std::string name() const override {
    return "weft::to_local";
  }

 private:
  /// Whether the gradient is a plain dense tensor, so that from_local would not refuse it.
  static bool has_memory(const at::Tensor& gradient) {
    constexpr c10::DispatchKeySet kWrapped(
        {c10::DispatchKey::Python, c10::DispatchKey::Functionalize, c10::DispatchKey::ZeroTensor});
    const auto keys = gradient.key_set();
    return (keys.has(c10::DispatchKey::CPU) || keys.has(c10::DispatchKey::CUDA)) && !keys.has_any(kWrapped) &&
        !is_inside_transform(gradient);
  }

  SpecPtr spec_;
  c10::intrusive_ptr<DTensorImpl> like_;
  bool is_debugged_; // backward may run on another thread
};

} // namespace

at::Tensor counting_writes(DTensorImpl& impl, const at::Tensor& local) {
  return counting(impl, local, untracked);
}

const at::Tensor& counting_local(DTensorImpl& impl) {
  const auto& local = impl.local();
  const auto* kept = impl.kept_counting_local();
  if (kept != nullptr && kept->is_alias_of(local) && kept->_version() == impl.version_of_local().current_version()) {
    return *kept;
  }
  return impl.keep_counting_local(counting_writes(impl, local));
}

at::Tensor to_local(const at::Tensor& tensor, const ToLocalOptions& options) {
  auto& impl = checked_values("to_local", tensor);
  const auto& spec = impl.spec();
  if (!impl.is_pending() && has_open_sizes(impl.local())) {
    return over_open_sizes(tensor, [=](const at::Tensor& sized) { return to_local(sized, options); });
  }
  if (C10_UNLIKELY(has_tangent(tensor))) {
    check_has_gradient("to_local", *spec);
    return with_tangent(tensor, [&](const at::Tensor& each) { return to_local(each, options); });
  }
  if (is_recorded(tensor)) {
    auto like = options.grad_placements
        ? gradient_like(*spec, checked_gradient_layout("to_local", *spec, options.grad_placements), tensor.device())
        : known_gradient_like(spec, tensor.device());
    const at::NoGradGuard no_graph;
    // A view, so that autograd refuses to write to it in place: the write would change the tensor without its graph
    // knowing.
    auto result = observed(tensor, [&] {
      return counting(impl, impl.local(), [](const at::Tensor& local) { return view_of(local, untracked(local)); });
    });
    record<ToLocalNode>(tensor, result, spec, std::move(like));
    return result;
  }
  if (options.grad_placements) {
    checked_gradient_layout("to_local", *spec, options.grad_placements);
  }
  return observed(tensor, [&] { return counting_writes(impl, impl.local()); });
}

at::Tensor full_tensor(const at::Tensor& tensor, const ToLocalOptions& options) {
  const auto& spec = *checked_values("full_tensor", tensor).spec();
  TORCH_CHECK_VALUE(
      spec.mesh().is_member(), "[full_tensor] a rank of the mesh is required, but rank ", spec.mesh().world()->rank(),
      " is not in ", spec.mesh(), ". Call it on those ranks only; to_local() is empty here.");
  return to_local(redistribute(tensor, replicated(spec.mesh())), options);
}

} // namespace weft
