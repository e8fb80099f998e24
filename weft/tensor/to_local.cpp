#include "weft/tensor/to_local.h"

#include "weft/tensor/agreement.h"
#include "weft/tensor/boundary.h"
#include "weft/tensor/from_local.h"
#include "weft/tensor/inspect.h"
#include "weft/tensor/move_observer.h"
#include "weft/tensor/redistribute.h"
#include "weft/tensor/scopes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Boundary : torch::CustomClassHolder {
  SpecPtr spec;
  SpecPtr gradient_spec;
  bool is_debugged; // backward may run on another thread
};

using BoundaryPtr = c10::intrusive_ptr<Boundary>;

struct ToLocal : torch::autograd::Function<ToLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const BoundaryPtr& boundary) {
    context->set_materialize_grads(false);
    context->saved_data["boundary"] = c10::IValue::make_capsule(boundary);
    return observed(tensor, [&] {
      // A view, so that autograd refuses to change it in place: the tensor would change and not know.
      auto local = as_dtensor(tensor)->local().alias();
      as_dtensor(tensor)->count_exposure();
      share_version(local, tensor);
      return local;
    });
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) {
      return {at::Tensor(), at::Tensor()};
    }
    const auto kept = c10::static_intrusive_pointer_cast<Boundary>(context->saved_data["boundary"].toCapsule());
    const auto& gradient_spec = *kept->gradient_spec;
    check_has_gradient("to_local", *kept->spec);
    if (kept->is_debugged || debug_enabled()) {
      check_replicas_agree("to_local", gradients[0], gradient_spec, ReplicaClaim::Gradients);
    }
    const auto terms = averaged_over(*kept->spec);
    const FromLocalOptions options{
        .shape = gradient_spec.sizes().vec(),
        .stride = gradient_spec.strides().vec(),
        .grad_placements = as_terms(kept->spec->layout())};
    return {
        from_local(
            terms == 1 ? gradients[0] : gradients[0] * terms, gradient_spec.mesh(), gradient_spec.layout(), options),
        at::Tensor()};
  }
};

} // namespace

at::Tensor to_local(const at::Tensor& tensor, const ToLocalOptions& options) {
  const auto& impl = checked_values("to_local", tensor);
  const auto& spec = impl.spec();
  if (is_recorded(tensor)) {
    auto boundary = c10::make_intrusive<Boundary>();
    boundary->spec = spec;
    boundary->gradient_spec = TensorSpec::make(
        spec->mesh(), checked_gradient_layout("to_local", *spec, options.grad_placements), spec->sizes(),
        spec->dtype());
    boundary->is_debugged = debug_enabled();
    return ToLocal::apply(tensor, boundary);
  }
  if (options.grad_placements) {
    checked_gradient_layout("to_local", *spec, options.grad_placements);
  }
  return observed(tensor, [&] {
    auto local = untracked(impl.local());
    impl.count_exposure();
    share_version(local, tensor);
    return local;
  });
}

at::Tensor full_tensor(const at::Tensor& tensor, const ToLocalOptions& options) {
  const auto& spec = *checked_values("full_tensor", tensor).spec();
  return to_local(redistribute(tensor, all_replicated(spec.mesh())), options);
}

} // namespace weft
