#include "weft/tensor/boundary/to_local.h"

#include "weft/core/checked_layout.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/agreement.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ToLocalBoundary : torch::CustomClassHolder {
  SpecPtr spec;
  SpecPtr gradient_spec;
  bool is_debugged; // backward may run on another thread
};

using ToLocalBoundaryPtr = c10::intrusive_ptr<ToLocalBoundary>;

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

/// Applies `handle` to the local tensor. The result has the version counter by which the distributed tensor notices
/// writes.
template <class Handle>
at::Tensor counting_writes(DTensorImpl& impl, const Handle& handle) {
  const auto& local = impl.local();
  auto result = handle(local.is_inference() ? normal_alias(local) : local);
  result.unsafeGetTensorImpl()->set_version_counter(impl.version_of_local());
  return result;
}

struct ToLocal : torch::autograd::Function<ToLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const ToLocalBoundaryPtr& boundary) {
    context->set_materialize_grads(false);
    context->saved_data["boundary"] = c10::IValue::make_capsule(boundary);
    return observed(tensor, [&] {
      // A view, so that autograd refuses to write to it in place: the write would change the tensor without its graph
      // knowing.
      return counting_writes(*as_dtensor(tensor), [](const at::Tensor& local) { return local.alias(); });
    });
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) {
      return {at::Tensor(), at::Tensor()};
    }
    const auto kept = c10::static_intrusive_pointer_cast<ToLocalBoundary>(context->saved_data["boundary"].toCapsule());
    const auto& gradient_spec = *kept->gradient_spec;
    check_has_gradient("to_local", *kept->spec);
    if (kept->is_debugged || debug_enabled()) {
      check_replicas_agree("to_local", gradients[0], gradient_spec, ReplicaClaim::Gradients);
    }
    const auto terms = averaged_over(*kept->spec);
    const FromLocalOptions options{
        .shape = gradient_spec.sizes().vec(),
        .stride = gradient_spec.strides().vec(),
        .grad_placements = with_sums_for_averages(kept->spec->layout())};
    return {
        from_local(
            terms == 1 ? gradients[0] : gradients[0] * terms, gradient_spec.mesh(), gradient_spec.layout(), options),
        at::Tensor()};
  }
};

} // namespace

at::Tensor to_local(const at::Tensor& tensor, const ToLocalOptions& options) {
  auto& impl = checked_values("to_local", tensor);
  const auto& spec = impl.spec();
  if (C10_UNLIKELY(has_tangent(tensor))) {
    check_has_gradient("to_local", *spec);
    return with_tangent(tensor, [&](const at::Tensor& each) { return to_local(each, options); });
  }
  if (is_recorded(tensor)) {
    auto boundary = c10::make_intrusive<ToLocalBoundary>();
    boundary->spec = spec;
    const auto gradient_layout = checked_gradient_layout("to_local", *spec, options.grad_placements);
    boundary->gradient_spec = spec->is_contiguous()
        ? TensorSpec::make(spec->mesh(), gradient_layout, spec->sizes(), spec->dtype())
        : TensorSpec::make(
              spec->mesh(), gradient_layout, spec->sizes(), dense_strides(spec->sizes(), order_in_memory(*spec)),
              spec->dtype());
    boundary->is_debugged = debug_enabled();
    return ToLocal::apply(tensor, boundary);
  }
  if (options.grad_placements) {
    checked_gradient_layout("to_local", *spec, options.grad_placements);
  }
  return observed(tensor, [&] { return counting_writes(impl, untracked); });
}

at::Tensor full_tensor(const at::Tensor& tensor, const ToLocalOptions& options) {
  const auto& spec = *checked_values("full_tensor", tensor).spec();
  return to_local(redistribute(tensor, replicated(spec.mesh())), options);
}

} // namespace weft
