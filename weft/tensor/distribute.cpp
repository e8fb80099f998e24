#include "weft/tensor/distribute.h"

#include "weft/redistribute/execute.h"
#include "weft/tensor/dispatch.h"

#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Carries a spec from forward to backward.
struct KeptSpec : torch::CustomClassHolder {
  explicit KeptSpec(SpecPtr kept) : spec(std::move(kept)) {}
  SpecPtr spec;
};

void keep(AutogradContext* context, SpecPtr spec) {
  context->saved_data["spec"] = c10::IValue::make_capsule(c10::make_intrusive<KeptSpec>(std::move(spec)));
}

SpecPtr kept(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<KeptSpec>(context->saved_data["spec"].toCapsule())->spec;
}

/// The gradient of a sum is that of each of its terms: what is partial forward is replicated backward.
SpecPtr gradient_spec(const SpecPtr& spec) {
  auto layout = spec->layout();
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    layout = layout[m].is_partial() ? layout.with(m, Replicate()) : layout;
  }
  return spec->with(layout);
}

at::Tensor move_to(const at::Tensor& tensor, const SpecPtr& target) {
  const auto* impl = as_dtensor(tensor);
  if (impl->spec()->layout() == target->layout()) {
    return tensor.alias();
  }
  const auto own_target = impl->spec()->with(target->layout());
  return make_dtensor(redistribute_local(impl->local(), impl->spec(), own_target), own_target, tensor.device());
}

struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const SpecPtr& target) {
    keep(context, gradient_spec(spec_of(tensor)));
    return move_to(tensor, target);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {move_to(gradients[0], kept(context)), at::Tensor()};
  }
};

struct ToLocal : torch::autograd::Function<ToLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor) {
    keep(context, gradient_spec(spec_of(tensor)));
    return as_dtensor(tensor)->local().alias();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {make_dtensor(gradients[0].contiguous(), kept(context))};
  }
};

struct FromLocal : torch::autograd::Function<FromLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local, const SpecPtr& spec) {
    keep(context, gradient_spec(spec));
    return make_dtensor(local.contiguous(), spec);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {as_dtensor(move_to(gradients[0], kept(context)))->local(), at::Tensor()};
  }
};

void check_distributed(const char* where, const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(
      is_dtensor(tensor), "[", where, "] a distributed tensor is required, but got a plain one",
      tensor.defined() ? c10::str(" of shape ", tensor.sizes()) : std::string(),
      ". Make one with from_local or distribute_tensor.");
}

} // namespace

const SpecPtr& spec_of(const at::Tensor& tensor) {
  check_distributed("spec_of", tensor);
  return as_dtensor(tensor)->spec();
}

at::Tensor from_local(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    std::optional<c10::IntArrayRef> shape) {
  install_dispatch();
  const auto normalized = layout.normalized(local.dim());
  auto sizes = shape ? shape->vec() : local.sizes().vec();
  for (int64_t m = 0; !shape && m < mesh.ndim(); ++m) {
    if (normalized[m].is_shard()) {
      sizes[normalized[m].dim()] *= mesh.size(m);
    }
  }
  const auto spec = TensorSpec::make(mesh, normalized, sizes, local.scalar_type());
  const auto expected = spec->local_shape_and_offset().shape;
  TORCH_CHECK_VALUE(
      local.sizes() == c10::IntArrayRef(expected), "[from_local] rank ", mesh.world()->rank(),
      " must give a local tensor of shape ", c10::IntArrayRef(expected), " of ", *spec, ", but got ", local.sizes(),
      ". Give the global shape where the parts are not equal in size.");
  return FromLocal::apply(local, spec);
}

at::Tensor to_local(const at::Tensor& tensor) {
  check_distributed("to_local", tensor);
  return ToLocal::apply(tensor);
}

at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout) {
  check_distributed("redistribute", tensor);
  return Redistribute::apply(tensor, spec_of(tensor)->with(layout));
}

at::Tensor full_tensor(const at::Tensor& tensor) {
  check_distributed("full_tensor", tensor);
  return to_local(redistribute(tensor, Layout(Placements(spec_of(tensor)->mesh().ndim(), Replicate()))));
}

at::Tensor distribute_tensor(const at::Tensor& tensor, const DeviceMesh& mesh, const Layout& layout) {
  install_dispatch();
  const auto target = TensorSpec::make(mesh, layout, tensor.sizes(), tensor.scalar_type());
  TORCH_CHECK_VALUE(
      !target->layout().has_partial(), "[distribute_tensor] placements R and S are required, but got ", layout,
      ". A partial value comes out of operators only; use from_local to make one.");
  const auto source = target->with(Layout(Placements(mesh.ndim(), Replicate())));
  const auto local = redistribute_local(tensor.detach().contiguous(), source, target).wait();
  // Of its own: changing the distributed tensor must not change the one it was made of.
  auto result = make_dtensor(local.is_alias_of(tensor) ? local.clone() : local, target);
  return result.set_requires_grad(tensor.requires_grad());
}

} // namespace weft
