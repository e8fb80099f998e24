#include "weft/tensor/redistribute.h"

#include "weft/core/dtype_text.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/boundary.h"
#include "weft/tensor/inspect.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Move : torch::CustomClassHolder {
  Layout layout;
  at::ScalarType dtype;
  bool async_op;
  Layout gradient_layout;
  at::ScalarType gradient_dtype; // while it moves
  at::ScalarType tensor_dtype;

  bool keeps(const TensorSpec& spec) const {
    return spec.layout() == layout && spec.dtype() == dtype;
  }
};

using MovePtr = c10::intrusive_ptr<Move>;

at::Tensor run(const Move& move, const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& impl = *as_dtensor(tensor);
  const auto& spec = *impl.spec();
  auto local = impl.local().contiguous();
  local = local.scalar_type() == move.dtype ? local : local.to(move.dtype);
  const bool is_as_specified = spec.dtype() == move.dtype && spec.is_contiguous();
  const auto source =
      is_as_specified ? impl.spec() : TensorSpec::make(spec.mesh(), spec.layout(), spec.sizes(), move.dtype);
  const auto target = source->with(move.layout);
  if (local.is_meta()) {
    return make_dtensor(at::empty(target->local_shape_and_offset().shape, local.options()), target);
  }
  auto result = redistribute_local(local, source, target);
  // What is still on its way arrives in memory of its own.
  if (result.ready() && result.wait().is_alias_of(impl.local())) {
    result = result.wait().clone();
  } else if (!move.async_op) {
    result.wait();
  }
  return make_dtensor(std::move(result), target, tensor.device());
}

/// Autograd refuses to change a view made by a function of its own in place: the tensor would change and not know.
at::Tensor view_of(const at::Tensor& tensor) {
  return torch::autograd::as_view(
      tensor, untracked(tensor), /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true);
}

struct Redistribute : torch::autograd::Function<Redistribute> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const MovePtr& move) {
    context->set_materialize_grads(false);
    context->saved_data["move"] = c10::IValue::make_capsule(move);
    return move->keeps(*as_dtensor(tensor)->spec()) ? view_of(tensor) : run(*move, tensor);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[0].defined()) {
      return {at::Tensor(), at::Tensor()};
    }
    const auto move = c10::static_intrusive_pointer_cast<Move>(context->saved_data["move"].toCapsule());
    const auto moved = redistribute(
        gradients[0], move->gradient_layout,
        {.async_op = move->async_op, .forward_dtype = move->gradient_dtype, .backward_dtype = move->gradient_dtype});
    return {redistribute(moved, move->gradient_layout, {.forward_dtype = move->tensor_dtype}), at::Tensor()};
  }
};

/// A cast before the data moves must commute with the reductions that may follow.
at::ScalarType checked_dtype(const char* option, std::optional<at::ScalarType> asked, at::ScalarType own) {
  const auto dtype = asked.value_or(own);
  const bool is_same_kind = c10::isFloatingType(dtype) == c10::isFloatingType(own) &&
      c10::isComplexType(dtype) == c10::isComplexType(own) && (dtype == at::kBool) == (own == at::kBool);
  TORCH_CHECK_VALUE(
      is_same_kind, "[redistribute] ", option, " must be of the same kind (floating, complex or integral) as ",
      dtype_text(own), ", but got ", dtype_text(dtype), ". Convert the tensor with to() instead.");
  return dtype;
}

} // namespace

at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout, const RedistributeOptions& options) {
  const auto& impl = checked_values("redistribute", tensor);
  const auto& spec = *impl.spec();
  TORCH_CHECK_NOT_IMPLEMENTED(
      !options.mesh || *options.mesh == spec.mesh(), "[redistribute] a tensor stays on its mesh ", spec.mesh(),
      ", but got ", *options.mesh, ". Make it whole with full_tensor and distribute that on the other mesh.");
  auto move = c10::make_intrusive<Move>();
  move->layout = checked_layout("redistribute", spec.mesh(), layout, spec.dim());
  move->dtype = checked_dtype("forward_dtype", options.forward_dtype, spec.dtype());
  move->async_op = options.async_op;
  move->gradient_layout = default_gradient_layout(spec.layout());
  move->gradient_dtype = checked_dtype("backward_dtype", options.backward_dtype, spec.dtype());
  move->tensor_dtype = spec.dtype();
  if (is_recorded(tensor)) {
    return Redistribute::apply(tensor, move);
  }
  return move->keeps(spec) ? untracked(tensor) : run(*move, tensor);
}

} // namespace weft
