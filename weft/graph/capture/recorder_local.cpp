#include "weft/comm/communicator.h"
#include "weft/comm/functional_collective.h"
#include "weft/graph/capture/recorded_operator.h"
#include "weft/graph/capture/recorder_moves.h"
#include "weft/graph/capture/traced_type.h"
#include "weft/graph/ir/local_redistribution.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

/// Whether the call computes no values: its tensors have shapes alone. Weft's kernels find the shape of a result by it.
bool is_without_values(c10::ArrayRef<c10::IValue> arguments) {
  bool has_tensors = false;
  bool is_meta = false;
  for (const auto& value : arguments) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      has_tensors = true;
      is_meta = is_meta || tensor.is_meta(); // a number may be on the CPU
    });
  }
  return has_tensors ? is_meta : std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
    return value.isDevice() && value.toDevice().is_meta();
  });
}

bool takes_distributed(c10::ArrayRef<c10::IValue> arguments) {
  bool found = false;
  for (const auto& value : arguments) {
    each_tensor(value, [&](const at::Tensor& tensor) { found = found || is_dtensor(tensor); });
  }
  return found;
}

/// Whether all tensors are numbers of the program's text, such as the 2 in x * 2.
bool takes_numbers_alone(c10::ArrayRef<c10::IValue> arguments) {
  bool result = true;
  for (const auto& value : arguments) {
    each_tensor(
        value, [&](const at::Tensor& tensor) { result = result && tensor.unsafeGetTensorImpl()->is_wrapped_number(); });
  }
  return result;
}

/// The reduction of a plan that is one all-reduce; passes know it as a functional collective.
std::optional<ReduceOp> single_all_reduce(const Plan& plan) {
  if (plan.steps.size() != 1 || plan.steps[0].kind != StepKind::AllReduce) {
    return std::nullopt;
  }
  const auto [op, divisor] = reduction_of(plan.steps[0], plan.source->mesh().shape());
  return divisor == 1 ? std::optional(op) : std::nullopt;
}

c10::OperatorHandle functional(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

std::string group_name(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  std::vector<std::string> names;
  for (const auto m : mesh_dims) {
    names.push_back(mesh.names()[m]);
  }
  return c10::Join(",", names);
}

} // namespace

/// Remembers distributed tensors that were made before the recording, when a call uses one for the first time.
void Recorder::note_outside(c10::ArrayRef<c10::IValue> arguments) {
  for (const auto& value : arguments) {
    each_tensor(value, [&](const at::Tensor& tensor) {
      const auto* distributed = as_dtensor(tensor);
      if (distributed == nullptr || !distributed->local().defined()) {
        return;
      }
      set_mesh(distributed->spec()->mesh());
      if (!tensors_.has_memory_of(distributed->local())) {
        outside_.push_back(tensor);
        value_of(distributed->local());
      }
    });
  }
}

bool Recorder::run_local(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  if (takes_distributed(arguments)) {
    note_outside(arguments);
  } else if (!is_without_values(arguments) && !(reads_numbers(op) && takes_numbers_alone(arguments))) {
    return false;
  }
  op.redispatchBoxed(keys, stack);
  return true;
}

/// Runs a functional collective on the group of these mesh dims, to its end.
void Recorder::run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
  const auto arguments = torch::jit::pop(*stack, op.schema().arguments().size());
  if (op.schema().name() == "_c10d_functional::wait_tensor") {
    stack->push_back(arguments[0]);
    return;
  }
  const auto* collective = find_functional_collective(op.schema().name());
  TORCH_CHECK_NOT_IMPLEMENTED(
      collective != nullptr && arguments[0].isTensor() && trace_.mesh, "[capture] a collective must be one of ",
      functional_collective_names(), " on one tensor, over dims of the mesh, but got ",
      c10::toString(op.operator_name()), ".");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const CommunicationScope is_seen(true);
  const auto names = c10::split(arguments.back().toStringView(), ',');
  const auto dims = trace_.mesh->dims(std::vector<std::string>(names.begin(), names.end()));
  auto group = Communicator::of(*trace_.mesh).group(*trace_.mesh, dims);
  auto started = collective->start(*group, arguments[0].toTensor(), arguments);
  started.pending.wait();
  stack->emplace_back(std::move(started.output));
}

at::Tensor Recorder::record_redistribution(
    const Plan& plan,
    const at::Tensor& local,
    c10::function_ref<at::Tensor()> run) {
  const auto& source = *plan.source;
  set_mesh(source.mesh());
  fill_blank(local);
  const auto operand = value_of(local);
  at::Tensor result;
  {
    is_moving_ = true;
    const CommunicationScope is_seen(true);
    const auto end = c10::make_scope_exit([&] { is_moving_ = false; });
    result = run();
  }
  if (result.is_same(local)) {
    return result;
  }
  const auto value_of_result = [&] {
    return TracedValue{.type = traced_type(result), .memory = TensorTable::memory(result)};
  };
  ValueId made = 0;
  if (const auto op = single_all_reduce(plan)) {
    const auto& dims = plan.steps[0].mesh_dims;
    made = add_call(
        functional("_c10d_functional::all_reduce"),
        {Argument::operand(0), Argument(std::string(to_string(*op))), Argument(group_name(source.mesh(), dims))},
        operand, value_of_result());
    made = add_call(functional("_c10d_functional::wait_tensor"), {Argument::operand(0)}, made, value_of_result());
  } else {
    made = add_call(
        redistribute_local(),
        {Argument::operand(0), Argument(source.sizes().vec()), Argument(source.layout().to_string()),
         Argument(plan.target->layout().to_string())},
        operand, value_of_result());
  }
  tensors_.set(result, made);
  return result;
}

} // namespace weft::graph
