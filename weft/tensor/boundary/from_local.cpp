#include "weft/tensor/boundary/from_local.h"

#include "weft/comm/collectives.h"
#include "weft/core/checked_layout.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/agreement.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/install_dispatch.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

SpecPtr spec_for(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options) {
  TORCH_CHECK_VALUE(
      options.shape.has_value() == options.stride.has_value(),
      "[from_local] shape and stride must be given together, but got ",
      options.shape ? c10::str("the shape ", c10::IntArrayRef(*options.shape))
                    : c10::str("the stride ", c10::IntArrayRef(options.stride.value_or(std::vector<int64_t>()))),
      " alone. Give both where the local tensors differ in size, and none where they do not.");
  if (!options.shape) {
    c10::DimVector sizes(local.sizes());
    for (int64_t m = 0; m < mesh.ndim(); ++m) {
      if (layout[m].is_shard()) {
        sizes[layout[m].dim()] *= mesh.size(m);
      }
    }
    return local.is_contiguous()
        ? TensorSpec::make(mesh, layout, sizes, local.scalar_type())
        : TensorSpec::make(mesh, layout, sizes, strides_as_in(local, sizes), local.scalar_type());
  }
  TORCH_CHECK_VALUE(
      static_cast<int64_t>(options.shape->size()) == local.dim() && options.stride->size() == options.shape->size(),
      "[from_local] shape and stride must have the ", local.dim(), " dims of the local tensor, but got shape ",
      c10::IntArrayRef(*options.shape), " and stride ", c10::IntArrayRef(*options.stride), ".");
  const auto dense = dense_strides(*options.shape, dims_by_stride(*options.shape, *options.stride));
  TORCH_CHECK_VALUE(
      same_strides(*options.shape, *options.stride, dense),
      "[from_local] stride must be that of a tensor without gaps and overlaps, but got ",
      c10::IntArrayRef(*options.stride), " for the shape ", c10::IntArrayRef(*options.shape),
      ". Give the strides of the contiguous tensor, or of a permutation of it.");
  return TensorSpec::make(mesh, layout, *options.shape, *options.stride, local.scalar_type());
}

/// Broadcasts the values of the first rank along the replicated mesh dims.
at::Tensor from_first_rank(const at::Tensor& local, const TensorSpec& spec) {
  MeshDims replicated;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    if (spec.layout()[m].is_replicate()) {
      replicated.push_back(m);
    }
  }
  const bool has_none = replicated.empty() || local.is_meta();
  return has_none ? local : broadcast(local.contiguous(), spec.mesh(), replicated, /*root=*/0).wait();
}

struct Boundary : torch::CustomClassHolder {
  SpecPtr spec;
  Layout gradient_layout;
  bool run_check;
};

using BoundaryPtr = c10::intrusive_ptr<Boundary>;

at::Tensor wrapped(const at::Tensor& local, const SpecPtr& spec, bool run_check) {
  auto given = untracked(local);
  const auto held = in_stride_order(run_check ? from_first_rank(given, *spec) : std::move(given), *spec);
  if (debug_enabled()) {
    check_replicas_agree("from_local", held, *spec, ReplicaClaim::Values);
  }
  auto result = make_dtensor(held, spec);
  share_version(result, held);
  return result;
}

at::Tensor wrap(const at::Tensor& local, const SpecPtr& spec, bool run_check) {
  return observed(local, [&] { return wrapped(local, spec, run_check); });
}

/// Redistributes the gradient to a layout that may be partial: first to R on the mesh dims that become partial, because
/// there is no direct step from S to P.
at::Tensor moved_to(const at::Tensor& gradient, const Layout& layout) {
  const auto& source = spec_of(gradient)->layout();
  const auto between =
      replicated_where(layout, [&](int64_t m) { return layout[m].is_partial() && source[m] != layout[m]; });
  const auto moved = redistribute(gradient, between);
  return between == layout ? moved : redistribute(moved, layout);
}

struct FromLocal : torch::autograd::Function<FromLocal> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& local, const BoundaryPtr& boundary) {
    context->set_materialize_grads(false);
    context->saved_data["boundary"] = c10::IValue::make_capsule(boundary);
    return wrap(local, boundary->spec, boundary->run_check);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) {
      return {at::Tensor(), at::Tensor()};
    }
    const auto kept = c10::static_intrusive_pointer_cast<Boundary>(context->saved_data["boundary"].toCapsule());
    const auto gradient = distributed_on_meta(gradients[0], kept->spec->mesh());
    checked_dtensor("from_local", gradient);
    const auto moved = moved_to(gradient, kept->gradient_layout);
    // Returns the local tensor itself where nothing is recorded: AccumulateGrad then sees its use count, and copies the
    // gradient if something else holds it.
    const auto local = is_recorded(moved)
        ? to_local(moved, {.grad_placements = with_sums_for_averages(kept->spec->layout())})
        : observed(moved, [&] { return as_dtensor(moved)->local(); });
    const auto terms = averaged_over(*kept->spec);
    return {terms == 1 ? local : local / terms, at::Tensor()};
  }
};

/// A global shape that was computed from a local one gives every rank that local shape, except where a strided shard is
/// uneven: then the local shape has to be checked.
bool has_strided_shard(const Layout& layout) {
  const auto placements = layout.placements();
  return std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return p.split_factor() > 1; });
}

at::Tensor outside_of_mesh(const at::Tensor& local, const SpecPtr& spec) {
  const auto nothing = at::empty(spec->local_shape_and_offset().shape, local.options().requires_grad(false));
  return make_dtensor(nothing, spec).set_requires_grad(local.requires_grad());
}

} // namespace

at::Tensor from_local(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options) {
  install_dispatch();
  TORCH_CHECK_TYPE(
      local.defined() && !is_dtensor(local), "[from_local] a plain tensor is required, but got ",
      local.defined() ? c10::str("a distributed one, ", *spec_of(local), ". Use redistribute to change its placements.")
                      : std::string("an undefined one."));
  check_has_dense_memory("from_local", local);
  const auto placements = checked_layout("from_local", mesh, layout, local.dim());
  const auto given = on_device_of(mesh, local);
  const auto spec = spec_for(given, mesh, placements, options);
  const bool is_dual = has_tangent(given);
  const bool has_gradient = is_recorded(given);
  Layout gradient_layout;
  if (has_gradient || options.grad_placements) {
    gradient_layout = checked_gradient_layout("from_local", *spec, options.grad_placements);
  }
  if (has_gradient || is_dual) {
    check_has_gradient("from_local", *spec);
  }
  if (C10_UNLIKELY(is_dual)) {
    return with_tangent(given, [&](const at::Tensor& each) { return from_local(each, mesh, layout, options); });
  }
  if (!mesh.is_member()) {
    return outside_of_mesh(given, spec);
  }
  if (options.run_check) {
    check_locals_agree("from_local", given, *spec, options.shape.has_value());
  } else if (options.shape || has_strided_shard(placements)) {
    check_local_shape("from_local", given.sizes(), spec->local_shape_and_offset().shape, mesh.world()->rank(), *spec);
  }
  if (!has_gradient) {
    return wrap(given, spec, options.run_check);
  }
  auto boundary = c10::make_intrusive<Boundary>();
  boundary->spec = spec;
  boundary->gradient_layout = std::move(gradient_layout);
  boundary->run_check = options.run_check;
  return FromLocal::apply(given, boundary);
}

FromLocalOptions with_global_shape(c10::IntArrayRef shape) {
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  const auto stride = dense_strides(shape, order);
  return {.shape = shape.vec(), .stride = std::vector<int64_t>(stride.begin(), stride.end())};
}

at::Tensor distributed_on_meta(const at::Tensor& gradient, const DeviceMesh& mesh) {
  return is_dtensor(gradient) || !gradient.is_meta() ? gradient : from_local(gradient, mesh, replicated(mesh));
}

} // namespace weft
