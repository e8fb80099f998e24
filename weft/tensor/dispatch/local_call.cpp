#include "weft/tensor/dispatch/local_call.h"

#include "weft/comm/comm_log.h"
#include "weft/core/layout_algebra.h"
#include "weft/core/own_positions.h"
#include "weft/tensor/dispatch/list_call.h"
#include "weft/tensor/dispatch/overlapped_call.h"
#include "weft/tensor/dispatch/prepare.h"
#include "weft/tensor/impl/overwritten.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

using torch::jit::Stack;
using ArgumentKind = OperatorSchema::ArgumentKind;
using Locals = c10::SmallVector<at::Tensor, 4>;

const at::Tensor& local_of(const OperandRef& ref) {
  return ref.impl != nullptr ? ref.impl->local() : *ref.tensor;
}

Locals locals_of(const OperandRefs& operands) {
  Locals locals;
  for (const auto& ref : operands) {
    locals.push_back(local_of(ref));
  }
  return locals;
}

/// Redistributes the local tensors. Starts all redistributions before it waits for the first.
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

struct PositionOps {
  static at::Tensor subtract(const at::Tensor& tensor, int64_t number) {
    return tensor.sub(number);
  }
  static at::Tensor is_outside(const at::Tensor& tensor, int64_t end) {
    return tensor.lt(0).logical_or_(tensor.ge(end));
  }
  static at::Tensor fill(const at::Tensor& tensor, const at::Tensor& mask, int64_t number) {
    return tensor.masked_fill_(mask, number);
  }
};

/// A table of one row, for a rank that holds no rows: its lookups read the first position and are masked afterwards.
at::Tensor one_row_of_zeros(const at::Tensor& table, int64_t dim) {
  auto sizes = table.sizes().vec();
  sizes[dim] = 1;
  return at::zeros(sizes, table.options());
}

/// Appends dims of size 1 to a mask that has a tensor's first dims, so that it broadcasts over the others.
at::Tensor for_all_dims(at::Tensor mask, const at::Tensor& tensor) {
  while (mask.dim() < tensor.dim()) {
    mask = mask.unsqueeze(-1);
  }
  return mask;
}

/// Replaces the operands among the arguments by their local tensors; `local(i)` returns that of operand i.
template <class Local>
void put_arguments(c10::IValue* arguments, const OperatorSchema& schema, const OperandRefs& operands, Local local) {
  for (size_t i = 0; i < operands.size();) {
    const auto argument = operands[i].argument;
    auto& value = arguments[argument];
    if (operands[i].position < 0) {
      value = c10::IValue(at::Tensor(local(i++)));
      continue;
    }
    if (schema.arguments[argument] == ArgumentKind::OptionalTensorList) {
      auto list = value.toOptionalTensorList().copy();
      for (; i < operands.size() && operands[i].argument == argument; ++i) {
        list.set(operands[i].position, local(i));
      }
      value = std::move(list);
    } else {
      c10::List<at::Tensor> list;
      list.reserve(value.toListRef().size());
      for (; i < operands.size() && operands[i].argument == argument; ++i) {
        list.push_back(local(i));
      }
      value = std::move(list);
    }
  }
}

/// A dense copy of the local tensor with strides in the order of the spec's.
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

/// Whether a result has another size than the run on meta predicted: some devices return empty tensors for saved
/// statistics that backward does not need.
bool is_of_other_size(const at::Tensor& local, const PreparedOutput& output) {
  if (!local.defined() || !output.spec || output.is_view) {
    return false;
  }
  return is_replicated(output.spec->layout()) && local.sizes() != output.spec->sizes();
}

PreparedOutput with_dtype(PreparedOutput output, c10::ScalarType dtype) {
  const auto& spec = *output.spec;
  output.spec = TensorSpec::make(spec.mesh(), spec.layout(), spec.sizes(), spec.strides(), dtype);
  output.like = c10::make_intrusive<DTensorImpl>(AsyncTensor(), output.spec, output.like->device());
  return output;
}

/// One run of a prepared call.
class LocalCall {
 public:
  LocalCall(
      const c10::OperatorHandle& op,
      const OperatorSchema& schema,
      PreparedCall& call,
      Stack& stack,
      const OperandRefs& operands)
      : op_(op), schema_(schema), call_(call), stack_(stack), operands_(operands) {}

  void run() {
    const bool moves = !call_.moves.empty() || call_.lookup || !call_.write_backs.empty();
    const bool reads_ahead = moves || reads_what_it_writes();
    if (C10_UNLIKELY(reads_ahead && reads_too_early(schema_, call_, operands_))) {
      run_by_element(op_, schema_, stack_);
      return;
    }
    auto* arguments = stack_.data() + stack_.size() - schema_.arguments.size();
    if (!schema_.written.empty()) {
      count_writes(arguments);
    }
    keep(arguments);
    if (C10_LIKELY(!reads_ahead)) {
      put_arguments(
          arguments, schema_, operands_, [&](size_t i) -> const at::Tensor& { return local_of(operands_[i]); });
    } else if (call_.overlapped != nullptr && !is_traced(local_of(operands_[0])) && runs_overlapped(call_)) {
      run_with_overlap(arguments);
      put_results();
      return;
    } else {
      auto locals = prepared_locals();
      put_arguments(arguments, schema_, operands_, [&](size_t i) -> const at::Tensor& { return locals[i]; });
    }
    for (const auto& [argument, value] : call_.local_arguments) {
      arguments[argument] = value;
    }
    op_.callBoxed(&stack_);
    if (C10_UNLIKELY(foreign_.defined() && call_.lookup->masks_output)) {
      const auto& found = stack_.back().toTensor(); // memory of its own, or that of an out= argument
      found.masked_fill_(for_all_dims(foreign_, found), 0);
    }
    write_back();
    put_results();
  }

 private:
  void count_writes(const c10::IValue* arguments) const {
    for (const auto argument : schema_.written) {
      const auto& value = arguments[argument];
      if (value.isTensorList()) {
        weft::count_writes(value.toTensorVector(), !op_.schema().name().starts_with("aten::_fused_"));
      } else if (value.isTensor() && is_dtensor(value.toTensor())) {
        as_dtensor(value.toTensor())->count_write();
      }
    }
  }

  /// Keeps the arguments that are written to or viewed, because their local tensors replace them on the stack.
  void keep(c10::IValue* arguments) {
    for (const auto& ret : schema_.returns) {
      const auto argument = ret.stored_in >= 0 ? ret.stored_in : ret.view_of;
      if (argument < 0) {
        continue;
      }
      auto& value = arguments[argument];
      // A plain tensor stays, because its operand refers to it.
      const bool is_replaced = schema_.returns.size() == 1 && value.isTensor() && is_dtensor(value.toTensor());
      kept_.push_back(is_replaced ? std::move(value) : value);
    }
    for (const auto& back : call_.write_backs) {
      originals_.push_back(local_of(operands_[back.operand])); // the stack may hold the only reference to the operand
    }
  }

  void run_with_overlap(const c10::IValue* arguments) {
    const auto& name = op_.schema().name();
    auto locals = locals_of(operands_);
    if (!call_.overlapped->other_moves.empty()) {
      move(locals, call_.overlapped->other_moves, name.c_str());
    }
    const auto count = schema_.arguments.size();
    auto result = run_overlapped(*call_.overlapped, name, locals, c10::ArrayRef(arguments, count));
    torch::jit::drop(stack_, count);
    stack_.emplace_back(std::move(result));
  }

  bool is_written(size_t operand) const {
    return schema_.writes(operands_[operand].argument);
  }

  /// Whether an operand that is read shares memory with one that is written. For two lists, with the one at the same
  /// position.
  template <class Local>
  bool is_overwritten(size_t read, const Local& local) const {
    const auto position = operands_[read].position;
    return std::any_of(schema_.written.begin(), schema_.written.end(), [&](int64_t argument) {
      auto [w, end] = operands_of(argument);
      if (position >= 0 && w < end && operands_[w].position >= 0) {
        w = std::min(w + position, end);
        end = std::min(w + 1, end);
      }
      for (; w < end; ++w) {
        if (share_storage(local(w), local(read)) && !may_read_in_place(local(w), local(read))) {
          return true;
        }
      }
      return false;
    });
  }
  /// The range [first, end) of an argument's operands, which are sorted by argument.
  std::pair<size_t, size_t> operands_of(int64_t argument) const {
    const auto begin = operands_.begin();
    const auto is_before = [](int64_t bound) {
      return [bound](const OperandRef& ref) { return ref.argument < bound; };
    };
    return {
        std::partition_point(begin, operands_.end(), is_before(argument)) - begin,
        std::partition_point(begin, operands_.end(), is_before(argument + 1)) - begin};
  }
  /// A pointwise kernel reads each element before it writes the one at the same place, so that it needs no copy.
  bool may_read_in_place(const at::Tensor& written, const at::Tensor& read) const {
    return op_.hasTag(at::Tag::pointwise) && are_same_elements(written, read);
  }

  bool reads_what_it_writes() const {
    if (schema_.written.empty()) {
      return false;
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!is_written(i) && is_overwritten(i, [&](size_t k) -> const at::Tensor& { return local_of(operands_[k]); })) {
        return true;
      }
    }
    return false;
  }

  void copy_overwritten(Locals& locals) const {
    for (size_t i = 0; i < locals.size() && !schema_.written.empty(); ++i) {
      if (!is_written(i) && is_overwritten(i, [&](size_t k) -> const at::Tensor& { return locals[k]; })) {
        locals[i] = locals[i].clone();
      }
    }
  }

  Locals prepared_locals() {
    auto locals = locals_of(operands_);
    if (!call_.moves.empty()) {
      move(locals, call_.moves, op_.schema().name().c_str());
    }
    if (call_.lookup) {
      auto& positions = locals[call_.lookup->operand];
      auto own = own_positions(PositionOps(), positions, call_.lookup->begin, call_.lookup->length, call_.lookup->size);
      positions = std::move(own.positions);
      foreign_ = std::move(own.foreign);
      if (!call_.lookup->masks_output) {
        locals[0] = locals[0].masked_fill(for_all_dims(foreign_, locals[0]), 0);
      } else if (call_.lookup->length == 0) {
        auto& table = locals[call_.lookup->table];
        table = one_row_of_zeros(table, call_.lookup->table_dim);
      }
    }
    for (const auto& back : call_.write_backs) {
      auto& local = locals[back.operand];
      if (back.unread_sizes) {
        local = at::empty(*back.unread_sizes, local.options());
      }
      written_.push_back(local);
    }
    copy_overwritten(locals);
    return locals;
  }

  void write_back() {
    if (C10_LIKELY(call_.write_backs.empty())) {
      return;
    }
    const OperatorScope scope(op_.schema().name().c_str());
    for (size_t k = 0; k < call_.write_backs.size(); ++k) {
      originals_[k].copy_(call_.write_backs[k].plan->run(written_[k]).wait());
    }
  }

  void put_results() {
    auto* results = stack_.data() + stack_.size() - schema_.returns.size();
    size_t kept = 0;
    for (size_t r = 0; r < schema_.returns.size(); ++r) {
      const auto& ret = schema_.returns[r];
      auto& value = results[r];
      if (ret.stored_in >= 0) {
        value = std::move(kept_[kept++]);
        continue;
      }
      const auto* base = ret.view_of >= 0 ? as_dtensor(kept_[kept++].toTensor()) : nullptr;
      if (value.isTensor()) {
        value = result(std::move(value).toTensor(), ret, base);
      } else if (ret.is_tensor && value.isTensorList()) {
        auto list = value.toTensorVector();
        for (auto& tensor : list) {
          tensor = result(std::move(tensor), ret, base);
        }
        value = std::move(list);
      }
    }
    // The outputs that a rule describes are the same for every call with this key; those of the fallback may depend on
    // values.
    call_.outputs_known = call_.outputs_known || !call_.is_fallback;
    call_.is_direct = call_.outputs_known && call_.moves.empty() && call_.write_backs.empty() && !call_.lookup &&
        call_.local_arguments.empty() && !call_.is_fallback && !call_.needs_linear_numbers;
  }

  /// Corrects an output by the first local result, which shows what the run on meta could not predict: sizes that
  /// depend on values, and dtypes that a device's kernel chooses differently (the statistics of a layer norm in bf16).
  /// Both are the same on every rank.
  void correct_output(const at::Tensor& local, const OperatorSchema::Return& ret) {
    auto& output = call_.outputs[next_];
    if (is_of_other_size(local, output)) {
      output = output_of_result(call_, ret, next_, local);
    } else if (local.defined() && output.spec && local.scalar_type() != output.spec->dtype()) {
      output = with_dtype(output, local.scalar_type());
    }
  }

  /// Raises if a registered rule gives another local shape than the local operator.
  void check_shape(const at::Tensor& local, const PreparedOutput& output) const {
    if (!call_.has_registered_rule || !local.defined() || !output.spec) {
      return;
    }
    const auto shape = output.spec->local_shape_and_offset().shape;
    TORCH_CHECK_VALUE(
        local.sizes() == c10::IntArrayRef(shape), "[", op_.schema().name(), "] result ", next_, " must be ",
        *output.spec, " ", call_.explanation->why, ", so that this rank holds ", c10::IntArrayRef(shape),
        ", but the operator gave ", local.sizes(), ". Correct the rule; weft.check_rule tries all its strategies.");
  }

  at::Tensor result(at::Tensor local, const OperatorSchema::Return& ret, const DTensorImpl* base) {
    if (C10_LIKELY(call_.outputs_known)) {
      if (C10_UNLIKELY(!call_.is_direct)) {
        correct_output(local, ret);
        check_shape(local, call_.outputs[next_]);
      }
      return wrap_output(std::move(local), call_.outputs[next_++], base);
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        !local.defined() || local.layout() == at::kStrided, "[", op_.schema().name(),
        "] a strided result is required, but got one of layout ", local.layout(), " for ", *call_.operands[0],
        ". Call it on full_tensor(t).");
    const auto output = output_of_result(call_, ret, next_, local);
    check_shape(local, output);
    ++next_;
    if (!call_.is_fallback) {
      call_.outputs.resize(std::max(call_.outputs.size(), next_));
      call_.outputs[next_ - 1] = output;
    }
    return wrap_output(std::move(local), output, base);
  }

  const c10::OperatorHandle& op_;
  const OperatorSchema& schema_;
  PreparedCall& call_;
  Stack& stack_;
  const OperandRefs& operands_;
  c10::SmallVector<c10::IValue, 2> kept_;
  // Per write back: the local tensor of the operand, and the tensor that the operator writes to.
  c10::SmallVector<at::Tensor, 1> originals_;
  c10::SmallVector<at::Tensor, 1> written_;
  at::Tensor foreign_; // mask of the looked up positions that other ranks hold
  size_t next_ = 0;
};

} // namespace

void count_writes(at::TensorList written, bool tells_autograd) {
  for (const auto& tensor : written) {
    if (const auto* impl = as_dtensor(tensor)) {
      impl->count_write();
      if (tells_autograd && !tensor.is_inference()) {
        tensor.unsafeGetTensorImpl()->bump_version();
      }
    }
  }
}

void arrange(at::Tensor& local, const PreparedOutput& output) {
  local = output.contiguous ? local.contiguous() : in_order_of(local, *output.spec);
}

void run_local_call(
    const c10::OperatorHandle& op,
    const OperatorSchema& schema,
    PreparedCall& call,
    Stack* stack,
    const OperandRefs& operands) {
  LocalCall(op, schema, call, *stack, operands).run();
}

} // namespace weft
