#include "weft/tensor/boundary/redistribute.h"

#include "weft/core/checked_layout.h"
#include "weft/core/dtype_text.h"
#include "weft/core/layout_algebra.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute_to_mesh.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/call_cache.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The dtype to communicate in. Its kind must not change, because the cast happens before reductions and must commute
/// with them.
at::ScalarType checked_dtype(const char* option, std::optional<at::ScalarType> asked, at::ScalarType own) {
  const auto dtype = asked.value_or(own);
  const bool is_same_kind = c10::isFloatingType(dtype) == c10::isFloatingType(own) &&
      c10::isComplexType(dtype) == c10::isComplexType(own) && (dtype == at::kBool) == (own == at::kBool);
  TORCH_CHECK_VALUE(
      is_same_kind, "[redistribute] ", option, " must be of the same kind (floating, complex or integral) as ",
      dtype_text(own), ", but got ", dtype_text(dtype), ". Convert the tensor with to() instead.");
  return dtype;
}

/// A captured program redistributes into contiguous tensors.
bool keeps_order_in_memory() {
  return MoveObserver::of_thread() == nullptr;
}

/// The redistribution plan and the spec of the result; neither if layout and dtype stay.
PreparedCall prepare_move(const at::Tensor& tensor, const Layout& layout, at::ScalarType dtype) {
  const auto& spec = as_dtensor(tensor)->spec();
  PreparedCall call;
  call.operands = {spec};
  const auto checked = checked_layout("redistribute", spec->mesh(), layout, spec->dim());
  if (spec->layout() == checked && spec->dtype() == dtype) {
    return call;
  }
  // Contiguous tensors are communicated, whatever the strides of the tensor are, which could differ between ranks.
  const auto source = TensorSpec::make(spec->mesh(), spec->layout(), spec->sizes(), dtype);
  const auto contiguous = source->with(checked);
  const auto strides = dense_strides(spec->sizes(), order_in_memory(*spec));
  const auto target =
      keeps_order_in_memory() ? TensorSpec::make(spec->mesh(), checked, spec->sizes(), strides, dtype) : contiguous;
  call.moves = {std::make_shared<const CompiledPlan>(plan(source, contiguous))};
  call.outputs.resize(1);
  call.outputs[0].spec = target;
  call.outputs[0].like = c10::make_intrusive<DTensorImpl>(AsyncTensor(), target, tensor.device());
  return call;
}

const PreparedCall& prepared_move(const at::Tensor& tensor, const Layout& layout, at::ScalarType dtype) {
  static const char kOfMoves = 0;
  CallKey key;
  key.add(reinterpret_cast<uintptr_t>(&kOfMoves));
  key.add(reinterpret_cast<uintptr_t>(as_dtensor(tensor)->spec().get()));
  key.add(static_cast<uint64_t>(dtype));
  key.add(static_cast<uint64_t>(keeps_order_in_memory()));
  key.add(std::hash<c10::Device>()(tensor.device()));
  key.add(layout);
  auto& cache = CallCache::of_thread();
  const auto* found = cache.find(key);
  return found != nullptr ? *found : cache.add(key, prepare_move(tensor, layout, dtype));
}

/// The local tensor with the strides of `spec`, once it has arrived.
AsyncTensor in_stride_order_later(AsyncTensor local, const SpecPtr& spec) {
  if (spec->is_contiguous()) {
    return local;
  }
  const auto result = std::make_shared<at::Tensor>();
  return {result, Pending([result, local = std::move(local), spec] {
            const at::AutoDispatchBelowADInplaceOrView below_autograd;
            *result = in_stride_order(local.wait(), *spec);
          })};
}

at::Tensor move(const PreparedCall& call, const at::Tensor& tensor, at::ScalarType dtype, bool async_op) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& impl = *as_dtensor(tensor);
  const auto& target = call.outputs[0];
  auto local = impl.local().contiguous();
  if (local.scalar_type() != dtype) {
    local = local.to(dtype);
  }
  if (C10_UNLIKELY(local.is_meta())) {
    const auto empty = at::empty(target.spec->local_shape_and_offset().shape, local.options());
    return make_dtensor_like(*target.like, in_stride_order(empty, *target.spec));
  }
  auto result = call.moves[0]->run(local);
  if (!result.ready() && async_op) {
    return make_dtensor(in_stride_order_later(std::move(result), target.spec), target.spec, tensor.device());
  }
  // Collectives write to memory of their own. The result of a plan without any may alias the tensor.
  auto moved = in_stride_order(result.wait(), *target.spec);
  if (moved.is_alias_of(impl.local())) {
    moved = moved.clone();
  }
  return make_dtensor_like(*target.like, std::move(moved));
}

at::Tensor run(const PreparedCall& call, const at::Tensor& tensor, at::ScalarType dtype, bool async_op) {
  return observed(tensor, [&] { return move(call, tensor, dtype, async_op); });
}

/// The layout and dtypes that backward needs to redistribute the gradient.
struct Return : torch::CustomClassHolder {
  explicit Return(DeviceMesh mesh_of_tensor) : mesh(std::move(mesh_of_tensor)) {}
  DeviceMesh mesh;
  Layout layout;
  at::ScalarType dtype;
  at::ScalarType dtype_on_the_way;
  bool async_op;
};

using ReturnPtr = c10::intrusive_ptr<Return>;

struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& tensor,
      const PreparedCall* call,
      at::ScalarType dtype,
      const ReturnPtr& way_back) {
    context->set_materialize_grads(false);
    context->saved_data["way_back"] = c10::IValue::make_capsule(way_back);
    return call->moves.empty() ? view_of(tensor) : run(*call, tensor, dtype, way_back->async_op);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list results(4);
    if (gradients[0].defined()) {
      const auto back = c10::static_intrusive_pointer_cast<Return>(context->saved_data["way_back"].toCapsule());
      const auto moved = redistribute(
          distributed_on_meta(gradients[0], back->mesh), back->layout,
          {.async_op = back->async_op,
           .forward_dtype = back->dtype_on_the_way,
           .backward_dtype = back->dtype_on_the_way});
      results[0] = redistribute(moved, back->layout, {.forward_dtype = back->dtype});
    }
    return results;
  }
};

} // namespace

at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout, const RedistributeOptions& options) {
  const auto& spec = *checked_values("redistribute", tensor).spec();
  if (C10_UNLIKELY(options.mesh && *options.mesh != spec.mesh())) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !options.forward_dtype && !options.backward_dtype,
        "[redistribute] a tensor that goes to another mesh keeps its dtype, but got forward_dtype or backward_dtype "
        "for ",
        spec, " and ", *options.mesh, ". Convert it with to().");
    return redistribute_to_mesh(tensor, *options.mesh, layout);
  }
  const auto dtype = checked_dtype("forward_dtype", options.forward_dtype, spec.dtype());
  const auto gradient_dtype = checked_dtype("backward_dtype", options.backward_dtype, spec.dtype());
  if (C10_UNLIKELY(has_tangent(tensor))) {
    check_has_gradient("redistribute", spec);
    return with_tangent(tensor, [&](const at::Tensor& each) { return redistribute(each, layout, options); });
  }
  const auto& call = prepared_move(tensor, layout, dtype);
  if (!is_recorded(tensor)) {
    return call.moves.empty() ? untracked(tensor) : run(call, tensor, dtype, options.async_op);
  }
  auto way_back = c10::make_intrusive<Return>(spec.mesh());
  way_back->layout = without_partial(spec.layout());
  way_back->dtype = spec.dtype();
  way_back->dtype_on_the_way = gradient_dtype;
  way_back->async_op = options.async_op;
  return Redistribute::apply(tensor, &call, dtype, way_back);
}

} // namespace weft
