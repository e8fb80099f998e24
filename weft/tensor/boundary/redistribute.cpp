#include "weft/tensor/boundary/redistribute.h"

#include "weft/core/checked_layout.h"
#include "weft/core/dtype_text.h"
#include "weft/core/layout_algebra.h"
#include "weft/core/same_locals.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute_to_mesh.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/autograd_node.h"
#include "weft/tensor/impl/call_cache.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/open_sizes.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

/// The dtype to communicate in. Its kind must not change, because the cast happens before reductions and must commute
/// with them.
at::ScalarType checked_dtype(const char* option, std::optional<at::ScalarType> asked, at::ScalarType own) {
  if (C10_LIKELY(!asked)) {
    return own;
  }
  const auto dtype = *asked;
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

/// The redistribution plan and the spec of the result; neither if layout and dtype stay. A second output if the result
/// may share the tensor's memory, because the layout changes on mesh dims of one rank only; it has the tensor's strides.
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
  call.outputs = {PreparedOutput::of(target, tensor.device())};
  if (spec->dtype() == dtype && have_same_locals(spec->mesh(), spec->layout(), checked)) {
    call.outputs.push_back(PreparedOutput::of(spec->with(checked), tensor.device()));
  }
  return call;
}

const PreparedCall& prepared_move(const at::Tensor& tensor, const Layout& layout, at::ScalarType dtype) {
  static const char kOfMoves = 0;
  CallKey key;
  key.add(reinterpret_cast<uintptr_t>(&kOfMoves));
  key.add(reinterpret_cast<uintptr_t>(as_dtensor(tensor)->spec().get()));
  key.add(
      static_cast<uint64_t>(dtype) << 1 | static_cast<uint64_t>(keeps_order_in_memory()) |
      std::hash<c10::Device>()(tensor.device()) << 32);
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

/// The detached result, if it shares the tensor's memory; undefined if not.
at::Tensor alias_for(const PreparedCall& call, const at::Tensor& tensor) {
  if (call.outputs.empty()) {
    return untracked(tensor);
  }
  // A view that had to be copied must not be written to and goes out of date when its base changes. The result has
  // neither restriction, therefore memory of its own. A recorder of operators sees redistribution plans only.
  const auto& impl = *as_dtensor(tensor);
  const bool relabels = call.outputs.size() > 1 && !impl.is_copy_of_base() && MoveObserver::of_thread() == nullptr;
  if (!relabels) {
    return {};
  }
  auto alias = at::Tensor(impl.relabelled(*call.outputs[1].like));
  return is_traced(tensor) ? show_to_tracer(std::move(alias)) : alias;
}

/// Redistributes the gradient to the layout of the tensor. Terms of a gradient are reduced here if the tensor's were:
/// operators before this one would each reduce them.
class RedistributeNode : public UnaryNode {
 public:
  RedistributeNode(SpecPtr source, Layout target, at::ScalarType dtype_on_the_way, bool async_op)
      : source_(std::move(source)),
        target_(std::move(target)),
        dtype_on_the_way_(dtype_on_the_way),
        async_op_(async_op) {}

  at::Tensor backward(const at::Tensor& given) override {
    const auto gradient = distributed_on_meta(given, source_->mesh());
    const auto kept = gradient_layout(source_->layout(), checked_dtensor("redistribute", gradient).spec()->layout());
    const auto layout =
        replicated_where(kept, [&](int64_t m) { return kept[m].is_partial() && !target_[m].is_partial(); });
    const auto moved = redistribute(
        gradient, layout,
        {.async_op = async_op_, .forward_dtype = dtype_on_the_way_, .backward_dtype = dtype_on_the_way_});
    return moved.scalar_type() == source_->dtype() ? moved
                                                   : redistribute(moved, layout, {.forward_dtype = source_->dtype()});
  }
  std::string name() const override {
    return "weft::redistribute";
  }

 private:
  SpecPtr source_;
  Layout target_;
  at::ScalarType dtype_on_the_way_;
  bool async_op_;
};

} // namespace

Layout gradient_layout(const Layout& tensor, const Layout& gradient) {
  return replicated_where(
      tensor, [&](int64_t m) { return tensor[m].is_partial() && !(tensor[m] == gradient[m] && is_linear(gradient)); });
}

at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout, const RedistributeOptions& options) {
  const auto& impl = checked_values("redistribute", tensor);
  const auto& spec = *impl.spec();
  if (!impl.is_pending() && has_open_sizes(impl.local())) {
    return over_open_sizes(tensor, [=](const at::Tensor& sized) { return redistribute(sized, layout, options); });
  }
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
  const bool records = is_recorded(tensor);
  const bool stays = call.outputs.empty() && gradient_dtype == spec.dtype();
  if (records && stays && spec.mesh().size() == 1 && !spec.layout().has_partial()) {
    // Of several ranks the gradient may have another layout, which a node of autograd has to change.
    return tensor;
  }
  auto result = alias_for(call, tensor);
  if (!result.defined()) {
    std::optional<at::NoGradGuard> no_graph; // needed where there would be one
    if (records) {
      no_graph.emplace();
    }
    result = run(call, tensor, dtype, options.async_op);
  } else if (records) {
    result = view_of(tensor, result);
  }
  if (records) {
    record<RedistributeNode>(tensor, result, as_dtensor(tensor)->spec(), layout, gradient_dtype, options.async_op);
  }
  return result;
}

at::Tensor alias_in(const at::Tensor& tensor, const Layout& layout) {
  return alias_for(prepared_move(tensor, layout, tensor.scalar_type()), tensor);
}

} // namespace weft
