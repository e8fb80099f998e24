#include "weft/graph/capture/recorder.h"

#include "weft/graph/capture/recorded_operator.h"
#include "weft/graph/capture/recorder_moves.h"
#include "weft/graph/capture/run_without_data.h"
#include "weft/graph/capture/traced_type.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

namespace weft::graph {

namespace {

using torch::jit::Stack;

bool is_clone(const TracedCall& call) {
  const auto* op = std::get_if<c10::OperatorHandle>(&call.target);
  return op != nullptr && op->schema().name() == "aten::clone";
}

std::string name_of(const TracedCall& call) {
  const auto* op = std::get_if<c10::OperatorHandle>(&call.target);
  return op == nullptr ? "a redistribution" : c10::toString(op->operator_name());
}

void check_no_autocast(const c10::OperatorHandle& op) {
  const bool is_on = at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_on, "[capture] operators are recorded before autocast changes their dtypes, so that it must be off, but got ",
      op.schema().name(), " with autocast on. Convert the model and its inputs with to() instead.");
}

} // namespace

/// The call that is being recorded; dropped if its kernel raises.
class Recorder::OpenCall {
 public:
  OpenCall(Recorder& recorder, const c10::OperatorHandle& op) : recorder_(recorder) {
    auto& calls = recorder.open_.empty() ? recorder.trace_.calls : recorder.open_.back()->inner;
    calls.push_back(std::make_unique<TracedCall>(TracedCall{.target = op}));
    call_ = calls.back().get();
    call_->outer = recorder.open_.empty() ? nullptr : recorder.open_.back();
    call_->is_dropped = true;
    recorder.open_.push_back(call_);
  }
  ~OpenCall() {
    recorder_.open_.pop_back();
    call_->is_open = false;
  }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

  TracedCall& operator*() const {
    return *call_;
  }
  TracedCall* operator->() const {
    return call_;
  }

 private:
  Recorder& recorder_;
  TracedCall* call_;
};

Recorder::Recorder(RecordedLevel level)
    : was_multithreaded_(c10::AutogradState::get_tls_state().get_multithreading_enabled()) {
  if (level == RecordedLevel::Local) {
    local_moves_ = std::make_unique<LocalMoves>(*this);
  } else {
    global_moves_ = std::make_unique<GlobalMoves>(*this);
  }
  // Runs the backward on this thread for all devices, because a call on another thread would not be recorded.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

Recorder::~Recorder() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(was_multithreaded_);
}

void Recorder::set_mesh(const DeviceMesh& mesh) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !trace_.mesh || *trace_.mesh == mesh, "[capture] all distributed tensors must be on one mesh, but got ",
      *trace_.mesh, " and ", mesh, ". Capture what runs on each mesh by itself.");
  trace_.mesh = mesh;
}

ValueId Recorder::add_value(const at::Tensor& tensor) {
  TracedValue value{.type = traced_type(tensor), .memory = TensorTable::memory(tensor)};
  if (const auto* distributed = as_dtensor(tensor)) {
    set_mesh(distributed->spec()->mesh());
    value.layout = distributed->spec()->layout();
  }
  trace_.values.push_back(std::move(value));
  return trace_.values.size() - 1;
}

ValueId Recorder::input(const at::Tensor& tensor) {
  const auto shared = tensors_.overlapping(tensor);
  TORCH_CHECK_VALUE(
      !shared && !tensors_.find(tensor), "[capture] inputs must not share memory, but got two that do, one of shape ",
      tensor.sizes(), ". Clone one of them.");
  const auto value = add_value(tensor);
  tensors_.set(tensor, value);
  return value;
}

ValueId Recorder::add_constant(const at::Tensor& tensor) {
  if (const auto* op = tensors_.hidden_in(tensor)) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "[capture] what is used must be made by operators that are recorded, but got a tensor of shape ",
        tensor.sizes(), " that was made inside of ", *op, ". Write the function with other operators.");
  }
  const auto shared = tensors_.overlapping(tensor);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !shared, "[capture] views must be taken inside of the function, but got a tensor of shape ", tensor.sizes(),
      is_dtensor(tensor) ? " (distributed)" : "",
      " that shares its memory with another one and was not made from it by an operator. Take the view inside of the "
      "function; of a distributed tensor do not use the local one.");
  const auto value = add_value(tensor);
  trace_.values[value].constant = tensor;
  tensors_.set(tensor, value);
  return value;
}

bool Recorder::is_made(const at::Tensor& tensor) const {
  const auto value = tensors_.find(tensor);
  return value && trace_.values[*value].maker != nullptr;
}

ValueId Recorder::output(const at::Tensor& tensor) {
  fill_blank(tensor);
  return value_of(tensor);
}

ValueId Recorder::value_of(const at::Tensor& tensor) {
  const auto found = tensors_.find(tensor);
  const auto value = found ? *found : add_constant(tensor);
  use(value);
  return value;
}

/// Makes sure that a call of the program returns the value: outer calls that do not return it are expanded.
void Recorder::use(ValueId value) {
  auto* maker = trace_.values[value].maker;
  for (auto* call = maker == nullptr ? nullptr : maker->outer; call != nullptr && !call->is_open; call = call->outer) {
    const auto& given = call->outputs;
    if (!call->is_dropped && std::find(given.begin(), given.end(), std::optional(value)) != given.end()) {
      continue;
    }
    if (!call->is_composite && maker->outer == call && is_clone(*maker) && !call->is_dropped) {
      maker->is_kept = true;
      continue;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        call->is_composite && call->obstacle.empty() && !call->is_dropped, "[capture] ", name_of(*call),
        " cannot be recorded with what is made inside of it, but ", name_of(*maker), " gives a tensor there that is ",
        "used behind it", call->obstacle.empty() ? std::string() : ", and " + call->obstacle,
        ". Write the function with other operators, or without a gradient of this one.");
    call->is_expanded = true;
  }
}

Argument Recorder::operand(TracedCall& call, const at::Tensor& tensor) {
  const auto value = value_of(tensor);
  const auto found = std::find(call.operands.begin(), call.operands.end(), value);
  const auto number = static_cast<size_t>(found - call.operands.begin());
  if (found == call.operands.end()) {
    call.operands.push_back(value);
  }
  return Argument::operand(number);
}

Argument Recorder::read_argument(TracedCall& call, const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? operand(call, value.toTensor()) : Argument(value);
  }
  if (!value.isTensorList() && !value.isOptionalTensorList()) {
    return {value};
  }
  std::vector<Argument> elements;
  for (const c10::IValue& element : value.toListRef()) {
    elements.push_back(read_argument(call, element));
  }
  const bool has_operands = std::any_of(elements.begin(), elements.end(), [](const auto& e) { return e.is_operand(); });
  return has_operands ? Argument::list(std::move(elements)) : Argument(value);
}

void Recorder::read_arguments(TracedCall& call, c10::ArrayRef<c10::IValue> values) {
  const auto op = std::get<c10::OperatorHandle>(call.target);
  // Records a wrapped number as a number, because a constant tensor would take part in the type promotion.
  const auto number = values.size() > 1 ? wrapped_number(values[1]) : std::nullopt;
  const auto of_number = number ? taking_number(op) : std::nullopt;
  if (of_number) {
    call.target = *of_number;
  }
  const auto& schema = std::get<c10::OperatorHandle>(call.target).schema();
  for (size_t i = 0; i < values.size(); ++i) {
    auto argument = i == 1 && of_number ? Argument(*number) : read_argument(call, values[i]);
    const bool is_assumed = argument.is_constant() && is_default(schema.arguments()[i], values[i]);
    call.arguments.push_back(is_assumed ? Argument() : std::move(argument));
  }
}

/// Memory that is read before an operator wrote to it was filled without operators: its values become a constant.
void Recorder::fill_blank(const at::Tensor& tensor) {
  const auto found = blanks_.find(TensorTable::memory(tensor));
  if (found == blanks_.end()) {
    return;
  }
  auto& value = trace_.values[found->second.value];
  if (value.maker->outer == nullptr) {
    value.maker->is_dropped = true;
    value.maker = nullptr;
    value.constant = found->second.tensor;
  } else {
    value.maker->outer->obstacle = "memory is filled past the operators in it";
  }
  blanks_.erase(found);
}

void Recorder::fill_blanks(const TracedCall& call, c10::ArrayRef<c10::IValue> values) {
  const auto& schema = std::get<c10::OperatorHandle>(call.target).schema();
  for (size_t i = 0; i < values.size() && !blanks_.empty(); ++i) {
    each_tensor(values[i], [&](const at::Tensor& tensor) {
      if (is_written(schema.arguments()[i])) {
        blanks_.erase(TensorTable::memory(tensor));
      } else if (!is_view(schema)) {
        fill_blank(tensor);
      }
    });
  }
}

void Recorder::note_blank(const TracedCall& call, const at::Tensor& tensor) {
  const auto& schema = std::get<c10::OperatorHandle>(call.target).schema();
  if (gives_blank(schema) && !is_dtensor(tensor) && tensor.has_storage() && !tensor.is_meta()) {
    blanks_.emplace(TensorTable::memory(tensor), Blank{tensor, *call.outputs[0]});
  }
}

/// Whether the inner calls produce all results of the call.
bool Recorder::is_made_inside(const TracedCall& call, c10::ArrayRef<c10::IValue> outputs) const {
  const bool writes = is_mutating(call);
  bool result = true;
  for (const auto& output : outputs) {
    each_tensor(output, [&](const at::Tensor& tensor) {
      const auto known = tensors_.find_object(tensor);
      // The result is an operand, unless the call should write to it and no inner call did.
      const bool is_operand =
          known && std::find(call.operands.begin(), call.operands.end(), *known) != call.operands.end();
      result = result && known && !(is_operand && writes);
    });
  }
  return result;
}

std::optional<ValueId> Recorder::set_output(TracedCall& call, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return std::nullopt;
  }
  const auto value = add_value(tensor);
  trace_.values[value].maker = &call;
  tensors_.set(tensor, value);
  return value;
}

void Recorder::set_outputs(TracedCall& call, c10::ArrayRef<c10::IValue> outputs) {
  const auto give = [&](const at::Tensor& tensor) {
    return call.is_composite && tensor.defined() ? tensors_.find_object(tensor) : set_output(call, tensor);
  };
  for (const auto& output : outputs) {
    if (output.isTensorList() || output.isOptionalTensorList()) {
      const auto list = output.toListRef();
      call.lists.push_back(static_cast<int64_t>(list.size()));
      for (const c10::IValue& element : list) {
        call.outputs.push_back(element.isNone() ? std::nullopt : give(element.toTensor()));
      }
      continue;
    }
    call.lists.push_back(Node::kSingle);
    if (output.isTensor()) {
      call.outputs.push_back(give(output.toTensor()));
    } else if (const auto type = traced_number(output)) {
      trace_.values.push_back({.type = *type, .maker = &call});
      call.outputs.push_back(trace_.values.size() - 1);
    } else {
      call.outputs.emplace_back();
    }
  }
}

/// Whether every tensor is a value, or can become a constant.
bool Recorder::are_known(c10::ArrayRef<c10::IValue> arguments) const {
  bool result = true;
  for (const auto& argument : arguments) {
    each_tensor(argument, [&](const at::Tensor& tensor) {
      result = result && (tensors_.find(tensor) || (!tensors_.hidden_in(tensor) && !tensors_.overlapping(tensor)));
    });
  }
  return result;
}

/// Whether the current call is inside of something that is recorded: a kernel or a redistribution.
bool Recorder::is_inside() const {
  const auto& excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  return is_moving_ || (!open_.empty() && excluded.has(c10::DispatchKey::AutogradFunctionality));
}

/// Records a call inside of a kernel: the program does not see its results.
void Recorder::run_inside(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  run_without_data(op, keys, stack);
  const auto name = open_.empty() ? std::string("a redistribution") : name_of(*open_.front());
  for (const auto& output : torch::jit::last(*stack, op.schema().returns().size())) {
    each_tensor(output, [&](const at::Tensor& tensor) { tensors_.set_hidden(tensor, name); });
  }
}

void Recorder::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto& schema = op.schema();
  if (is_inside()) {
    return run_inside(op, keys, stack);
  }
  if (local_moves_ != nullptr && run_local(op, keys, stack)) {
    return;
  }
  const auto arguments = torch::jit::last(*stack, schema.arguments().size());
  if (!open_.empty() && !are_known(arguments)) {
    open_.back()->obstacle = "it works on local tensors";
    return run_inside(op, keys, stack);
  }
  if (reads_numbers(op) || has_open_shape(op, arguments)) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !open_.empty(), "[capture] what operators give must not depend on the values of tensors other than by values, ",
        "but got ", c10::toString(op.operator_name()), ", whose result is ",
        reads_numbers(op) ? "a number that is read out of a tensor" : "of a size that depends on values",
        ". Keep it a tensor of a fixed size (where, masked_fill), or read the number outside of the function.");
    open_.back()->obstacle = "it reads numbers out of tensors";
    return run_inside(op, keys, stack);
  }
  if (!gives_tensors(schema) && !schema.is_mutable() && !schema.returns().empty() && takes_tensors(arguments)) {
    // The result is metadata, such as a size or a dtype, and the same in every run of the program.
    return op.redispatchBoxed(keys, stack);
  }
  check_no_autocast(op);
  const OpenCall call(*this, op);
  read_arguments(*call, arguments);
  fill_blanks(*call, arguments);
  if (local_moves_ != nullptr && is_functional_collective(op)) {
    run_collective(op, stack);
  } else {
    run_without_data(op, keys, stack);
  }
  const auto outputs = torch::jit::last(*stack, schema.returns().size());
  call->is_composite = gives_tensors(schema) && !is_functional_collective(op) && is_made_inside(*call, outputs);
  // A call that only returns its operand is not recorded.
  call->is_dropped = call->is_composite && call->inner.empty();
  set_outputs(*call, outputs);
  if (!call->outputs.empty() && call->outputs[0] && outputs[0].isTensor()) {
    note_blank(*call, outputs[0].toTensor());
  }
}

Trace Recorder::finish() {
  return std::move(trace_);
}

} // namespace weft::graph
