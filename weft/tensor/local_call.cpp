#include "weft/tensor/local_call.h"

#include "weft/comm/comm_log.h"
#include "weft/tensor/prepare.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

using torch::jit::Stack;
using ArgumentKind = OperatorSchema::ArgumentKind;
using Locals = c10::SmallVector<at::Tensor, 8>;

Locals locals_of(const OperandRefs& operands) {
  Locals locals;
  for (const auto& ref : operands) {
    locals.push_back(ref.impl != nullptr ? ref.impl->local() : *ref.tensor);
  }
  return locals;
}

/// Starts all moves before it waits for the first.
void move(Locals& locals, const PreparedCall::Moves& moves, const char* name) {
  const OperatorScope scope(name);
  c10::SmallVector<AsyncTensor, 4> moved(locals.size());
  for (size_t i = 0; i < locals.size(); ++i) {
    if (moves[i]) {
      moved[i] = moves[i]->run(locals[i]);
    }
  }
  for (size_t i = 0; i < locals.size(); ++i) {
    if (moves[i]) {
      locals[i] = moved[i].wait();
    }
  }
}

/// Positions that other ranks hold become the first one, and are told by the mask, which has the shape of the positions.
at::Tensor take_own_positions(at::Tensor& positions, const PreparedCall::Lookup& lookup) {
  auto own = positions.sub(lookup.begin);
  const auto foreign = own.lt(0).logical_or_(own.ge(lookup.length));
  positions = own.masked_fill_(foreign, 0);
  return foreign;
}

/// Zeros where the mask is, whose dims are the tensor's first.
at::Tensor masked(const at::Tensor& tensor, at::Tensor mask) {
  while (mask.dim() < tensor.dim()) {
    mask = mask.unsqueeze(-1);
  }
  return tensor.masked_fill(mask, 0);
}

void put_arguments(
    Stack& stack,
    size_t first,
    const OperatorSchema& schema,
    const OperandRefs& operands,
    Locals& locals) {
  for (size_t i = 0; i < operands.size();) {
    const auto argument = operands[i].argument;
    auto& value = stack[first + argument];
    if (operands[i].position < 0) {
      value = std::move(locals[i++]);
      continue;
    }
    if (schema.arguments[argument] == ArgumentKind::OptionalTensorList) {
      auto list = value.toOptionalTensorList().copy();
      for (; i < operands.size() && operands[i].argument == argument; ++i) {
        list.set(operands[i].position, std::move(locals[i]));
      }
      value = std::move(list);
    } else {
      c10::List<at::Tensor> list;
      list.reserve(value.toListRef().size());
      for (; i < operands.size() && operands[i].argument == argument; ++i) {
        list.push_back(std::move(locals[i]));
      }
      value = std::move(list);
    }
  }
}

/// As the strides of the spec order the dims.
at::Tensor in_order_of(const at::Tensor& local, const TensorSpec& spec) {
  std::vector<int64_t> order(spec.dim());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](int64_t a, int64_t b) { return spec.strides()[a] > spec.strides()[b]; });
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[order[i]] = static_cast<int64_t>(i);
  }
  return local.permute(order).contiguous().permute(back);
}

at::Tensor wrap(const at::Tensor& local, const PreparedOutput& output, const DTensorImpl* base) {
  if (!local.defined()) {
    return local;
  }
  if (output.is_view) {
    auto view = make_dtensor(local, output.spec);
    as_dtensor(view)->become_view(base->storage_offset() + output.offset, output.is_copy || base->is_copy_of_base());
    return view;
  }
  if (C10_LIKELY(output.contiguous)) {
    return make_dtensor(C10_LIKELY(local.is_contiguous()) ? local : local.contiguous(), output.spec);
  }
  return make_dtensor(in_order_of(local, *output.spec), output.spec);
}

} // namespace

void run_local_call(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    const PreparedCall& call,
    Stack* stack,
    const OperandRefs& operands) {
  const auto first = stack->size() - schema.arguments.size();
  auto locals = locals_of(operands);
  if (C10_UNLIKELY(!call.moves.empty())) {
    move(locals, call.moves, op.schema().name().c_str());
  }
  at::Tensor foreign;
  if (C10_UNLIKELY(call.lookup.has_value())) {
    foreign = take_own_positions(locals[call.lookup->operand], *call.lookup);
    if (!call.lookup->masks_output) {
      locals[0] = masked(locals[0], foreign);
    }
  }
  // What is written to and what is viewed must outlive its place on the stack.
  c10::SmallVector<c10::IValue, 2> kept;
  if (!schema.written.empty() || schema.is_view) {
    kept.append(stack->begin() + static_cast<int64_t>(first), stack->end());
  }
  Locals written;
  if (C10_UNLIKELY(!call.returns_home.empty())) {
    written = locals;
  }
  put_arguments(*stack, first, schema, operands, locals);
  for (const auto& [argument, value] : call.local_arguments) {
    (*stack)[first + argument] = value;
  }
  op.callBoxed(stack);
  if (C10_UNLIKELY(foreign.defined() && call.lookup->masks_output)) {
    stack->back() = masked(stack->back().toTensor(), foreign);
  }

  for (size_t i = 0; i < call.returns_home.size(); ++i) {
    if (call.returns_home[i]) {
      operands[i].impl->local().copy_(call.returns_home[i]->run(written[i]).wait());
    }
  }
  const auto first_result = stack->size() - schema.returns.size();
  size_t next = 0;
  const auto put_output = [&](const at::Tensor& local, const OperatorSchema::Return& ret) {
    const auto* base = ret.view_of >= 0 ? as_dtensor(kept[ret.view_of].toTensor()) : nullptr;
    if (C10_UNLIKELY(!call.outputs_known)) {
      return wrap(local, output_of_result(call, ret, next++, local), base);
    }
    return wrap(local, call.outputs[next++], base);
  };
  for (size_t r = 0; r < schema.returns.size(); ++r) {
    auto& value = (*stack)[first_result + r];
    const auto& ret = schema.returns[r];
    if (ret.stored_in >= 0) {
      value = kept[ret.stored_in];
    } else if (value.isTensor()) {
      value = put_output(value.toTensor(), ret);
    } else if (ret.is_tensor && value.isTensorList()) {
      auto list = value.toTensorVector();
      for (auto& tensor : list) {
        tensor = put_output(tensor, ret);
      }
      value = std::move(list);
    }
  }
}

} // namespace weft
