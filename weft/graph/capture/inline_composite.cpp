#include "weft/graph/capture/inline_composite.h"

#include "weft/core/layout_algebra.h"
#include "weft/graph/capture/recorder.h"
#include "weft/graph/capture/traced_type.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/install_dispatch.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>

namespace weft::graph {

namespace {

using torch::jit::Stack;

/// What a kernel did with the operands of a node.
struct Recording {
  Trace trace;
  std::unordered_map<ValueId, Value*> operands;
  std::vector<std::optional<ValueId>> outputs; // in the order of the node's outputs
};

bool has_fixed_operands(const Node& node) {
  for (size_t i = 0; i < node.operand_count(); ++i) {
    const auto* value = node.operand(i);
    if (!value->is_tensor() || !has_fixed_sizes(value->tensor())) {
      return false;
    }
  }
  return true;
}

c10::IValue element_of(const Argument& argument, c10::ArrayRef<at::Tensor> operands) {
  return argument.is_operand() ? c10::IValue(operands[argument.operand()]) : argument.constant();
}

/// A list of the element type that the schema states.
c10::IValue list_of(const c10::TypePtr& type, const Argument& argument, c10::ArrayRef<at::Tensor> operands) {
  auto known = type;
  if (const auto optional = known->cast<c10::OptionalType>()) {
    known = optional->getElementType();
  }
  c10::impl::GenericList list(known->expectRef<c10::ListType>().getElementType());
  for (const auto& element : argument.elements()) {
    list.push_back(element_of(element, operands));
  }
  return list;
}

/// The arguments of the call, with these tensors as operands.
Stack stack_of(const Node& node, c10::ArrayRef<at::Tensor> operands) {
  const auto& schema = node.op()->schema();
  Stack stack;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& argument = node.arguments()[i];
    switch (argument.kind()) {
      case Argument::Kind::Absent:
        stack.push_back(schema.arguments()[i].default_value().value_or(c10::IValue()));
        break;
      case Argument::Kind::List:
        stack.push_back(list_of(schema.arguments()[i].type(), argument, operands));
        break;
      default:
        stack.push_back(element_of(argument, operands));
    }
  }
  return stack;
}

void add_outputs(Recorder& recorder, const c10::IValue& output, std::vector<std::optional<ValueId>>& outputs) {
  if (output.isTensor()) {
    const auto& tensor = output.toTensor();
    outputs.push_back(tensor.defined() ? std::optional(recorder.output(tensor)) : std::nullopt);
  } else if (output.isTensorList() || output.isOptionalTensorList()) {
    for (const c10::IValue& element : output.toListRef()) {
      add_outputs(recorder, element, outputs);
    }
  } else {
    outputs.emplace_back();
  }
}

/// Runs a kernel on tensors that are made from the operands, one per value.
Recording record(
    const Node& node,
    const std::function<at::Tensor(const Value& value)>& make,
    const std::function<void(Stack& stack)>& run) {
  std::unordered_map<const Value*, at::Tensor> made;
  std::vector<at::Tensor> operands;
  for (size_t i = 0; i < node.operand_count(); ++i) {
    auto& tensor = made[node.operand(i)];
    tensor = tensor.defined() ? tensor : make(*node.operand(i));
    operands.push_back(tensor);
  }
  auto stack = stack_of(node, operands);
  const at::NoGradGuard no_gradients;
  Recording result;
  Recorder recorder;
  for (size_t i = 0; i < node.operand_count(); ++i) {
    if (made.erase(node.operand(i)) != 0) {
      result.operands.emplace(recorder.input(operands[i]), node.operand(i));
    }
  }
  run(stack);
  for (const auto& output : stack) {
    add_outputs(recorder, output, result.outputs);
  }
  result.trace = recorder.finish();
  return result;
}

/// The calls that the outputs depend on, and the calls that write to memory.
std::vector<const TracedCall*> used_calls(const Recording& recording) {
  const auto& trace = recording.trace;
  std::vector<bool> is_used(trace.values.size());
  for (const auto& output : recording.outputs) {
    if (output) {
      is_used[*output] = true;
    }
  }
  auto calls = trace.program();
  std::vector<const TracedCall*> result;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    const auto& outputs = (*call)->outputs;
    const bool gives = std::any_of(outputs.begin(), outputs.end(), [&](const auto& o) { return o && is_used[*o]; });
    if (gives || is_mutating(**call)) {
      result.push_back(*call);
      for (const auto operand : (*call)->operands) {
        is_used[operand] = true;
      }
    }
  }
  std::reverse(result.begin(), result.end());
  return result;
}

/// Writes a recording into a graph, before the node that it replaces.
class Splice {
 public:
  Splice(Graph& graph, Node* node, const Recording& recording)
      : graph_(graph), node_(node), recording_(recording), values_(recording.operands), device_(device_of(*node)) {}

  void write(c10::ArrayRef<const TracedCall*> calls) {
    for (const auto* call : calls) {
      insert(*call);
    }
    for (size_t i = 0; i < node_->outputs().size(); ++i) {
      if (auto* output = node_->output(i); output != nullptr && !output->uses().empty()) {
        graph_.replace_all_uses(output, value(*recording_.outputs[i]));
      }
    }
    graph_.erase(node_);
  }

 private:
  static c10::Device device_of(const Node& node) {
    for (const auto* output : node.outputs()) {
      if (output != nullptr && output->is_tensor()) {
        return output->tensor().device;
      }
    }
    return c10::kCPU;
  }

  /// A number that the kernel turned into a tensor.
  Value* number(ValueId id) {
    const auto& traced = recording_.trace.values[id];
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::scalar_tensor", "");
    const auto& own = std::get<TensorType>(traced.type);
    Arguments arguments{
        c10::IValue(traced.constant.item()), c10::IValue(static_cast<int64_t>(own.dtype)), Argument(),
        c10::IValue(own.device), Argument()};
    auto* made = graph_.insert(node_, op, std::move(arguments), {}, {.types = {own}});
    made->origin = node_->origin;
    return made->output();
  }

  Value* value(ValueId id) {
    auto& found = values_[id];
    found = found != nullptr ? found : number(id);
    return found;
  }

  void insert(const TracedCall& call) {
    if (std::holds_alternative<SharedStep>(call.target)) {
      // A redistribution does not change the global tensor.
      values_[*call.outputs[0]] = value(call.operands[0]);
      return;
    }
    std::vector<Value*> operands;
    for (const auto operand : call.operands) {
      operands.push_back(value(operand));
    }
    auto arguments = call.arguments;
    for (auto& argument : arguments) {
      if (argument.is_constant() && argument.constant().isDevice() && argument.constant().toDevice().is_meta()) {
        argument = Argument(c10::IValue(device_));
      }
    }
    OutputTypes outputs{.types = {}, .lists = call.lists};
    for (const auto& output : call.outputs) {
      outputs.types.push_back(output ? std::optional(type_of(*output)) : std::nullopt);
    }
    auto* made = graph_.insert(node_, call.target, std::move(arguments), operands, std::move(outputs));
    made->origin = node_->origin;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i]) {
        values_.emplace(*call.outputs[i], made->output(i));
      }
    }
  }

  Type type_of(ValueId id) const {
    auto type = recording_.trace.values[id].type;
    if (auto* tensor = std::get_if<TensorType>(&type); tensor != nullptr && tensor->device.is_meta()) {
      tensor->device = device_;
    }
    return type;
  }

  Graph& graph_;
  Node* node_;
  const Recording& recording_;
  std::unordered_map<ValueId, Value*> values_;
  c10::Device device_;
};

/// A constant that the calls or the outputs use and that is not a number; nullptr if there is none.
const at::Tensor* lost_constant(const Recording& recording, c10::ArrayRef<const TracedCall*> calls) {
  const auto& values = recording.trace.values;
  const auto is_lost = [&](ValueId id) {
    const auto& constant = values[id].constant;
    return constant.defined() &&
        (constant.dim() != 0 || constant.is_meta() || is_dtensor(constant) ||
         constant.unsafeGetTensorImpl()->is_wrapped_number());
  };
  for (const auto* call : calls) {
    for (const auto operand : call->operands) {
      if (is_lost(operand)) {
        return &values[operand].constant;
      }
    }
  }
  for (const auto& output : recording.outputs) {
    if (output && is_lost(*output)) {
      return &values[*output].constant;
    }
  }
  return nullptr;
}

SpecPtr spec_of_value(const Value& value, const DeviceMesh& mesh) {
  const auto& type = value.tensor();
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  for (int64_t d = 0; d < type.dim(); ++d) {
    sizes.push_back(type.sizes[d].number());
    strides.push_back(type.strides[d].number());
  }
  return TensorSpec::make(mesh, value.layout.value_or(replicated(mesh)), sizes, strides, type.dtype);
}

at::Tensor distributed_meta_tensor(const Value& value, const DeviceMesh& mesh) {
  const auto spec = spec_of_value(value, mesh);
  const auto local =
      at::empty(spec->local_shape_and_offset().shape, at::TensorOptions().dtype(spec->dtype()).device(at::kMeta));
  return make_dtensor(local, spec);
}

} // namespace

bool inline_composite(Graph& graph, Node* node) {
  const auto* op = node->op();
  if (op == nullptr || !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
      !has_fixed_operands(*node)) {
    return false;
  }
  Recording recording;
  try {
    recording = record(
        *node, [](const Value& value) { return meta_tensor(value.tensor()); },
        [&](Stack& stack) { op->callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack); });
  } catch (const c10::Error&) {
    return false; // the kernel needs data
  }
  const auto calls = used_calls(recording);
  const bool is_itself =
      calls.size() == 1 && calls[0]->target.index() == 0 && std::get<c10::OperatorHandle>(calls[0]->target) == *op;
  if (is_itself || lost_constant(recording, calls) != nullptr) {
    return false;
  }
  Splice(graph, node, recording).write(calls);
  return true;
}

void inline_kernel(Graph& graph, Node* node, const c10::KernelFunction& kernel, const DeviceMesh& mesh) {
  const auto& op = *node->op();
  TORCH_CHECK_NOT_IMPLEMENTED(
      has_fixed_operands(*node),
      "[inline_kernel] the sizes of all operands must be numbers, but got symbols in those of ", target_name(*node),
      ". Export the program with fixed sizes.");
  install_dispatch();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto recording = record(
      *node, [&](const Value& value) { return distributed_meta_tensor(value, mesh); },
      [&](Stack& stack) { kernel.callBoxed(op, c10::DispatchKeySet(kDTensorKey), &stack); });
  const auto calls = used_calls(recording);
  if (const auto* lost = lost_constant(recording, calls)) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "[inline_kernel] what ", target_name(*node),
        " is made of must be made by operators on global tensors, but got a tensor of shape ", lost->sizes(),
        " that is not. Give the operator operands that need no decomposition.");
  }
  Splice(graph, node, recording).write(calls);
}

} // namespace weft::graph
