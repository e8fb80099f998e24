#include "weft/comm/chunk_views.h"
#include "weft/comm/world/named_groups.h"
#include "weft/overlap/chunk_pipeline.h"
#include "weft/overlap/matrix_gradient.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/library.h>

// The derivatives of the two fused operators, each of which is the other one: backward scatters the gradient of a
// gathered tensor and gathers that of a scattered one, overlapped with the matmuls of the derivative. They are
// registered for the operators on plain tensors, so that every caller of the operators by name has them, an eager
// program as well as one that torch runs. Backward calls the operators through the dispatcher again, so that a tracer
// records them.

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::jit::Stack;

const c10::OperatorHandle& gather_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("weft::all_gather_matmul", "");
  return op;
}

const c10::OperatorHandle& scatter_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("weft::matmul_reduce_scatter", "");
  return op;
}

bool needs_gradient(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() && value.toTensor().requires_grad();
  }
  if (!value.isTensorList() && !value.isOptionalTensorList()) {
    return false;
  }
  const auto list = value.toListRef();
  return std::any_of(list.begin(), list.end(), &needs_gradient);
}

bool is_recorded(const Stack& stack, size_t count) {
  const auto arguments = torch::jit::last(stack, count);
  return at::GradMode::is_enabled() && std::any_of(arguments.begin(), arguments.end(), &needs_gradient);
}

/// Runs the operator below autograd.
struct Below {
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;

  std::vector<at::Tensor> operator()(Stack arguments) const {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, &arguments);
    return arguments[0].isTensor() ? std::vector{arguments[0].toTensor()} : arguments[0].toTensorVector();
  }
};

/// The arguments of a fused call without its tensors, and its group.
struct FusedCall : torch::CustomClassHolder {
  size_t others = 0;
  std::vector<std::optional<std::vector<int64_t>>> bias_sizes; // per other, if it has a bias
  int64_t dim = 0;
  int64_t chunks = 1;
  std::string group;
  std::shared_ptr<Group> meant; // the group of this name during the forward; nullptr for tensors without data

  // Of a scatter.
  c10::SymInt size = 0; // of the product along `dim`
  int64_t averaged = 1; // over so many members
};
using FusedCallPtr = c10::intrusive_ptr<FusedCall>;

/// Finds the group of the forward, because backward may run outside of the scope in which its name is known.
FindGroup groups_of(const FusedCall& call) {
  return [name = call.group, meant = call.meant](const std::string& asked) { return asked == name ? meant : nullptr; };
}

std::shared_ptr<Group> group_meant(const std::string& name, const at::Tensor& tensor) {
  const bool has_data = !tensor.is_meta() && !tensor.key_set().has(c10::DispatchKey::Python);
  return has_data ? named_group(name, tensor.device().type()) : nullptr;
}

FusedCallPtr call_of(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<FusedCall>(context->saved_data["call"].toCapsule());
}

/// A plain all-gather of the members' shards, for a gradient that is multiplied with nothing.
at::Tensor gather(const at::Tensor& shard, const FusedCall& call) {
  const auto group = named_group(call.group, shard.device().type());
  const auto gathered = at::empty(with_size(shard.sizes(), call.dim, call.size.expect_int()), shard.options());
  group->all_gather(shard, chunk_views(gathered, group->size(), call.dim)).wait();
  return gathered;
}

/// This member's shard of the sum of all members' terms.
at::Tensor reduce_scatter(const at::Tensor& term, const FusedCall& call) {
  const auto group = named_group(call.group, term.device().type());
  const auto shards = chunk_views(term, group->size(), call.dim);
  const auto output = at::empty(shards[group->rank()].sizes(), term.options());
  group->reduce_scatter(shards, output, ReduceOp::Sum).wait();
  return output;
}

/// Makes the gradients raise if they are differentiated again, because the graph does not contain the gathered tensor
/// that they were computed from.
variable_list once(variable_list gradients, const char* name) {
  if (!at::GradMode::is_enabled()) {
    return gradients;
  }
  variable_list defined;
  for (const auto& gradient : gradients) {
    if (gradient.defined()) {
      defined.push_back(gradient.detach().requires_grad_());
    }
  }
  const auto text = c10::str(
      "[", name,
      "] has a first derivative only. Use all_gather or reduce_scatter and matmul where second ones are "
      "needed.");
  torch::autograd::DelayedError error(text, static_cast<int64_t>(defined.size()));
  defined = error.apply(std::move(defined));
  size_t next = 0;
  for (auto& gradient : gradients) {
    gradient = gradient.defined() ? defined[next++] : gradient;
  }
  return gradients;
}

/// The backward of a call, whose gradients `first` computes from the saved tensors.
template <class First>
variable_list derived_once(AutogradContext* context, const char* name, const First& first) {
  const auto call = call_of(context);
  const NamedGroupScope scope(groups_of(*call));
  variable_list results;
  {
    const at::NoGradGuard no_grad;
    results = first(context, *call);
  }
  results.resize(results.size() + 3); // for the three arguments of `forward` that are no tensors
  return once(std::move(results), name);
}

struct GatherMatmul : torch::autograd::Function<GatherMatmul> {
  /// The inputs are the shard, the others, and the biases that are defined.
  static variable_list forward(
      AutogradContext* context,
      at::TensorList inputs,
      const FusedCallPtr& call,
      const Below& below,
      Stack arguments) {
    const auto others = inputs.slice(1, call->others);
    const bool keeps = arguments[6].toBool();
    const bool needs_gathered =
        std::any_of(others.begin(), others.end(), [](const auto& o) { return o.requires_grad(); });
    arguments[6] = keeps || needs_gathered;
    auto results = below(std::move(arguments));
    variable_list saved{needs_gathered ? results.back() : at::Tensor()};
    saved.insert(saved.end(), others.begin(), others.end());
    if (needs_gathered && !keeps) {
      results.pop_back();
    }
    context->set_materialize_grads(false);
    context->save_for_backward(std::move(saved));
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return derived_once(
        context, "all_gather_matmul", [&](auto* saved, const auto& call) { return first(saved, call, gradients); });
  }

 private:
  static variable_list first(AutogradContext* context, const FusedCall& call, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& gathered = saved[0];
    variable_list results(1 + call.others);
    if (context->needs_input_grad(0)) {
      results[0] = shard_gradient(saved, call, gradients);
    }
    for (size_t i = 0; i < call.others; ++i) {
      if (gradients[i].defined() && context->needs_input_grad(1 + i)) {
        results[1 + i] = matrix_gradient(gathered, gradients[i], saved[1 + i]);
      }
    }
    for (size_t i = 0; i < call.others; ++i) {
      if (call.bias_sizes[i]) {
        const bool is_needed = gradients[i].defined() && context->needs_input_grad(results.size());
        results.push_back(is_needed ? gradients[i].sum_to_size(*call.bias_sizes[i]) : at::Tensor());
      }
    }
    return results;
  }

  static at::Tensor shard_gradient(const variable_list& saved, const FusedCall& call, const variable_list& gradients) {
    std::vector<at::Tensor> outer;
    std::vector<at::Tensor> matrices;
    for (size_t i = 0; i < call.others; ++i) {
      if (gradients[i].defined()) {
        outer.push_back(gradients[i]);
        matrices.push_back(saved[1 + i].t());
      }
    }
    at::Tensor result;
    if (!outer.empty()) {
      Stack stack{outer, matrices, c10::IValue(), "sum", call.dim, call.chunks, call.group, c10::IValue()};
      scatter_operator().callBoxed(&stack);
      result = stack[0].toTensor();
    }
    const bool keeps = gradients.size() > call.others;
    if (keeps && gradients.back().defined()) {
      const auto of_gathered = reduce_scatter(gradients.back(), call);
      result = result.defined() ? result + of_gathered : of_gathered;
    }
    return result;
  }
};

/// The gathered gradient times each matrix, then, if `keeps`, itself.
std::vector<at::Tensor> gather(
    const at::Tensor& gradient,
    const FusedCall& call,
    const std::vector<at::Tensor>& matrices,
    bool keeps) {
  if (matrices.empty()) {
    return keeps ? std::vector{gather(gradient, call)} : std::vector<at::Tensor>();
  }
  Stack stack{gradient, matrices,  c10::List<std::optional<at::Tensor>>(), call.dim, call.size, call.chunks,
              keeps,    call.group};
  gather_operator().callBoxed(&stack);
  return stack[0].toTensorVector();
}

struct MatmulScatter : torch::autograd::Function<MatmulScatter> {
  /// The inputs are the inputs of the matmuls, the others, and the bias if it is defined.
  static at::Tensor forward(
      AutogradContext* context,
      at::TensorList inputs,
      const FusedCallPtr& call,
      const Below& below,
      Stack arguments) {
    auto result = below(std::move(arguments))[0];
    context->save_for_backward(inputs.slice(0, 2 * call->others).vec());
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return derived_once(context, "matmul_reduce_scatter", [&](auto* saved, const auto& call) {
      return first(saved, call, gradients[0]);
    });
  }

 private:
  static variable_list first(AutogradContext* context, const FusedCall& call, at::Tensor gradient) {
    const auto saved = context->get_saved_variables();
    const auto pairs = call.others;
    gradient = (call.averaged == 1 ? gradient : gradient / call.averaged).to(saved[0].scalar_type());
    std::vector<size_t> needed; // inputs
    std::vector<at::Tensor> matrices;
    bool needs_gathered = false;
    for (size_t i = 0; i < pairs; ++i) {
      if (context->needs_input_grad(i)) {
        needed.push_back(i);
        matrices.push_back(saved[pairs + i].t());
      }
      needs_gathered = needs_gathered || context->needs_input_grad(pairs + i);
    }
    // Every member adds its own bias to the shards of all members, so that its gradient needs the gathered gradient.
    const bool needs_bias = call.bias_sizes[0] && context->needs_input_grad(2 * pairs);
    const auto gathered = gather(gradient, call, matrices, needs_gathered || needs_bias);
    variable_list results(2 * pairs + (call.bias_sizes[0] ? 1 : 0));
    for (size_t k = 0; k < needed.size(); ++k) {
      results[needed[k]] = gathered[k];
    }
    for (size_t i = 0; i < pairs; ++i) {
      if (context->needs_input_grad(pairs + i)) {
        results[pairs + i] = matrix_gradient(saved[i], gathered.back(), saved[pairs + i]);
      }
    }
    if (needs_bias) {
      results.back() = gathered.back().sum_to_size(*call.bias_sizes[0]);
    }
    return results;
  }
};

/// The arguments of a call that autograd records, taken off the stack. Nothing where it records nothing: then the
/// operator has run below autograd.
std::optional<Stack> take_recorded(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto count = op.schema().arguments().size();
  if (!is_recorded(*stack, count)) {
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    return std::nullopt;
  }
  const auto arguments = torch::jit::last(*stack, count);
  Stack own(arguments.begin(), arguments.end());
  torch::jit::drop(*stack, count);
  return own;
}

void add_tensors(variable_list& inputs, const c10::IValue& list) {
  for (const auto& tensor : list.toListRef()) {
    inputs.push_back(tensor.toTensor());
  }
}

void gather_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  auto taken = take_recorded(op, keys, stack);
  if (!taken) {
    return;
  }
  auto& arguments = *taken;
  const auto call = c10::make_intrusive<FusedCall>();
  variable_list inputs{arguments[0].toTensor()};
  add_tensors(inputs, arguments[1]);
  call->others = inputs.size() - 1;
  call->bias_sizes.resize(call->others);
  const auto biases = arguments[2].toListRef();
  for (size_t i = 0; i < std::min(biases.size(), call->others); ++i) {
    if (biases[i].isTensor() && biases[i].toTensor().defined()) {
      inputs.push_back(biases[i].toTensor());
      call->bias_sizes[i] = inputs.back().sizes().vec();
    }
  }
  call->dim = arguments[3].toInt();
  call->chunks = arguments[5].toInt();
  call->group = arguments[7].toStringRef();
  call->meant = group_meant(call->group, inputs[0]);
  stack->emplace_back(GatherMatmul::apply(at::TensorList(inputs), call, Below{op, keys}, std::move(arguments)));
}

void scatter_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  auto taken = take_recorded(op, keys, stack);
  if (!taken) {
    return;
  }
  auto& arguments = *taken;
  const auto call = c10::make_intrusive<FusedCall>();
  variable_list inputs;
  add_tensors(inputs, arguments[0]);
  call->others = inputs.size();
  add_tensors(inputs, arguments[1]);
  TORCH_CHECK_VALUE(
      call->others > 0 && inputs.size() == 2 * call->others,
      "[matmul_reduce_scatter] as many others as inputs are required, and at least one, but got ", call->others,
      " inputs and ", inputs.size() - call->others, " others.");
  call->bias_sizes.resize(1);
  if (arguments[2].isTensor() && arguments[2].toTensor().defined()) {
    inputs.push_back(arguments[2].toTensor());
    call->bias_sizes[0] = inputs.back().sizes().vec();
  }
  call->dim = arguments[4].toInt();
  call->chunks = arguments[5].toInt();
  call->group = arguments[6].toStringRef();
  call->meant = group_meant(call->group, inputs[0]);
  call->averaged = arguments[3].toStringView() == "avg" ? named_place(call->group).size : 1;
  const auto dim = c10::maybe_wrap_dim(call->dim, inputs[0].dim());
  call->size = dim == inputs[0].dim() - 1 ? inputs[call->others].sym_size(-1) : inputs[0].sym_size(dim);
  stack->emplace_back(MatmulScatter::apply(at::TensorList(inputs), call, Below{op, keys}, std::move(arguments)));
}

void kernel_without_gradient(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_recorded(*stack, op.schema().arguments().size()), "[", op.schema().name(),
      "] has no gradient, but got a tensor that requires one. Detach it, or multiply by the form without scales.");
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

} // namespace

TORCH_LIBRARY_IMPL(weft, Autograd, library) {
  library.impl("all_gather_matmul", torch::CppFunction::makeFromBoxedFunction<&gather_kernel>());
  library.impl("matmul_reduce_scatter", torch::CppFunction::makeFromBoxedFunction<&scatter_kernel>());
  library.impl("all_gather_scaled_matmul", torch::CppFunction::makeFromBoxedFunction<&kernel_without_gradient>());
  library.impl("scaled_matmul_reduce_scatter", torch::CppFunction::makeFromBoxedFunction<&kernel_without_gradient>());
}

} // namespace weft
