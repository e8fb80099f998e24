#include "weft/graph/capture/recorder_moves.h"

#include "weft/core/layout_algebra.h"
#include "weft/redistribute/plan.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <c10/util/ScopeExit.h>

namespace weft::graph {

/// A call that did not go through the dispatcher.
ValueId Recorder::add_call(Target target, Arguments arguments, ValueId operand, TracedValue value) {
  auto& calls = open_.empty() ? trace_.calls : open_.back()->inner;
  calls.push_back(std::make_unique<TracedCall>(
      TracedCall{.target = std::move(target), .arguments = std::move(arguments), .operands = {operand}}));
  auto& call = *calls.back();
  const auto made = trace_.values.size();
  call.outputs = {made};
  call.lists = {Node::kSingle};
  call.outer = open_.empty() ? nullptr : open_.back();
  call.is_open = false;
  value.maker = &call;
  trace_.values.push_back(std::move(value));
  return made;
}

ValueId Recorder::add_steps(ValueId value, const SpecPtr& from, const SpecPtr& to) {
  auto type = std::get<TensorType>(trace_.values[value].type);
  type.strides = contiguous_strides(type.sizes);
  type.dtype = to->dtype();
  if (from->dtype() != to->dtype()) {
    const auto cast = c10::Dispatcher::singleton().findSchemaOrThrow("aten::to", "dtype");
    Arguments arguments(cast.schema().arguments().size());
    arguments[0] = Argument::operand(0);
    arguments[1] = Argument(static_cast<int64_t>(to->dtype()));
    value = add_call(cast, std::move(arguments), value, {.type = type, .layout = from->layout()});
  }
  const auto source = TensorSpec::make(from->mesh(), from->layout(), from->sizes(), to->dtype());
  for (const auto& step : plan(source, source->with(to->layout())).steps) {
    value = add_call(step, {Argument::operand(0)}, value, {.type = type, .layout = step.after});
  }
  return value;
}

at::Tensor Recorder::record_move(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move) {
  if (is_inside()) {
    return move();
  }
  if (!open_.empty() && !are_known({c10::IValue(tensor)})) {
    open_.back()->obstacle = "it works on local tensors";
    return move();
  }
  auto value = value_of(tensor);
  at::Tensor result;
  {
    is_moving_ = true;
    const auto end = c10::make_scope_exit([&] { is_moving_ = false; });
    result = move();
  }
  const auto* from = as_dtensor(tensor);
  const auto* to = as_dtensor(result);
  const auto& spec = from != nullptr ? from->spec() : to->spec();
  set_mesh(spec->mesh());
  if (from != nullptr && to != nullptr) {
    value = add_steps(value, from->spec(), to->spec());
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(
        spec->layout() == replicated(spec->mesh()),
        "[capture] a program is of global tensors: only a replicated tensor may become plain or distributed, but got ",
        *spec, ". ",
        from != nullptr ? "Use full_tensor instead of to_local." : "Distribute the tensor outside of the function.");
    trace_.values[value].layout = spec->layout();
  }
  tensors_.set(result, value);
  return result;
}

} // namespace weft::graph
