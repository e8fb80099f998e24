#include "weft/graph/exec/instruction.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/exec/random_source.h"

namespace weft::graph {

namespace {

/// Checks that an operator does not write to the program's memory, and waits for collectives that still read the memory
/// it writes to. `is_any_read` is whether there are such collectives at all.
void before_write(Frame& frame, const c10::OperatorHandle& op, const c10::IValue& value, bool is_any_read) {
  if (value.isList()) {
    for (const auto& element : value.toListRef()) {
      before_write(frame, op, element, is_any_read);
    }
    return;
  }
  if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().has_storage()) {
    return;
  }
  const auto* memory = value.toTensor().storage().unsafeGetStorageImpl();
  TORCH_CHECK_NOT_IMPLEMENTED(
      frame.read_only.count(memory) == 0, "[Executor] ", op.operator_name(),
      " must write to memory that is known before to be written, but got a tensor that another operator made of a "
      "weight ",
      "without saying so. Clone the weight before it is changed.");
  if (!is_any_read) {
    return;
  }
  for (auto& transfer : frame.transfers) {
    if (std::find(transfer.reads.begin(), transfer.reads.end(), memory) != transfer.reads.end()) {
      transfer.wait();
    }
  }
}

void put(Frame& frame, uint32_t slot, c10::IValue value) {
  if (slot != OutputSlots::kUnused) {
    frame.slots[slot] = std::move(value);
  }
}

/// Attention without dropout draws no numbers, although its operator may. It needs no generator then, for which ranks that
/// are threads would take turns.
bool draws_numbers(const c10::OperatorHandle& op, const std::vector<Source>& arguments) {
  if (!is_random(op)) {
    return false;
  }
  const auto dropout = op.schema().argumentIndexWithName("dropout_p");
  const auto* given = dropout ? &arguments.at(*dropout) : nullptr;
  return given == nullptr || given->kind != Source::Kind::Constant || !given->constant.isDouble() ||
      given->constant.toDouble() != 0;
}

class OperatorCall final : public Instruction {
 public:
  OperatorCall(
      const c10::OperatorHandle& op,
      std::vector<size_t> written,
      std::vector<Source> arguments,
      OutputSlots outputs)
      : op_(op), arguments_(std::move(arguments)), outputs_(std::move(outputs)), written_(std::move(written)) {
    if (draws_numbers(op, arguments_)) {
      random_ = RandomOperator(op.schema());
    }
    is_plain_ = written_.empty() && !random_;
    const auto& lists = outputs_.lists;
    if (lists.size() == 1 && lists[0] == Node::kSingle) {
      single_output_ = outputs_.slots[0];
    }
  }

  void run(Frame& frame) const override {
    auto& stack = frame.stack;
    for (const auto& argument : arguments_) {
      argument.push(frame);
    }
    if (C10_LIKELY(is_plain_)) {
      op_.callBoxed(stack);
    } else {
      call_with_care(frame);
    }
    if (C10_LIKELY(single_output_ != OutputSlots::kUnused)) {
      frame.slots[single_output_] = std::move(stack.back());
      stack.pop_back();
    } else {
      unpack(frame);
    }
  }

 private:
  void call_with_care(Frame& frame) const {
    const bool is_any_read = std::any_of(frame.transfers.begin(), frame.transfers.end(), [](const Transfer& transfer) {
      return !transfer.reads.empty();
    });
    for (const auto position : written_) {
      before_write(frame, op_, torch::jit::peek(frame.stack, position, arguments_.size()), is_any_read);
    }
    if (random_) {
      random_->call(op_, frame.stack, *frame.random);
    } else {
      op_.callBoxed(frame.stack);
    }
  }

  void unpack(Frame& frame) const {
    const auto first = frame.stack.size() - outputs_.lists.size();
    size_t output = 0;
    for (size_t i = 0; i < outputs_.lists.size(); ++i) {
      auto& value = frame.stack[first + i];
      const auto count = outputs_.lists[i];
      if (count == Node::kSingle) {
        put(frame, outputs_.slots[output++], std::move(value));
        continue;
      }
      const auto elements = value.toListRef();
      TORCH_CHECK_VALUE(
          static_cast<int64_t>(elements.size()) == count, "[Executor] ", op_.operator_name(), " must give ", count,
          " values, as when the program was made, but gave ", elements.size(), ".");
      for (const auto& element : elements) {
        put(frame, outputs_.slots[output++], element);
      }
    }
    frame.stack.resize(first);
  }

  c10::OperatorHandle op_;
  std::vector<Source> arguments_;
  OutputSlots outputs_;
  std::vector<size_t> written_;
  std::optional<RandomOperator> random_;
  bool is_plain_;
  uint32_t single_output_ = OutputSlots::kUnused;
};

class FunctionCall final : public Instruction {
 public:
  FunctionCall(const ScalarFunction& function, std::vector<Source> arguments, uint32_t output)
      : function_(function), arguments_(std::move(arguments)), output_(output) {}

  void run(Frame& frame) const override {
    c10::SmallVector<c10::IValue, 3> values;
    for (const auto& argument : arguments_) {
      values.push_back(argument.take(frame));
    }
    put(frame, output_, function_.call(values));
  }

 private:
  const ScalarFunction& function_;
  std::vector<Source> arguments_;
  uint32_t output_;
};

class SizeRead final : public Instruction {
 public:
  using Read = int64_t (*)(const at::Tensor& tensor, int64_t dim);

  SizeRead(Read read, Source tensor, Source dim, uint32_t output)
      : read_(read), tensor_(std::move(tensor)), dim_(std::move(dim)), output_(output) {}

  void run(Frame& frame) const override {
    const auto tensor = tensor_.take(frame);
    const auto dim = dim_.take(frame);
    put(frame, output_, read_(tensor.toTensor(), dim.isInt() ? dim.toInt() : 0));
  }

 private:
  Read read_;
  Source tensor_;
  Source dim_;
  uint32_t output_;
};

SizeRead::Read find_read(const c10::OperatorName& name) {
  if (name == c10::OperatorName("aten::sym_size", "int")) {
    return [](const at::Tensor& tensor, int64_t dim) { return tensor.size(dim); };
  }
  if (name == c10::OperatorName("aten::sym_stride", "int")) {
    return [](const at::Tensor& tensor, int64_t dim) { return tensor.stride(dim); };
  }
  if (name == c10::OperatorName("aten::sym_numel", "")) {
    return [](const at::Tensor& tensor, int64_t /*dim*/) { return tensor.numel(); };
  }
  if (name == c10::OperatorName("aten::sym_storage_offset", "")) {
    return [](const at::Tensor& tensor, int64_t /*dim*/) { return tensor.storage_offset(); };
  }
  return nullptr;
}

} // namespace

std::unique_ptr<Instruction> make_operator_call(
    const c10::OperatorHandle& op,
    std::vector<size_t> written,
    std::vector<Source> arguments,
    OutputSlots outputs) {
  return std::make_unique<OperatorCall>(op, std::move(written), std::move(arguments), std::move(outputs));
}

std::unique_ptr<Instruction> make_function_call(
    const ScalarFunction& function,
    std::vector<Source> arguments,
    OutputSlots outputs) {
  return std::make_unique<FunctionCall>(function, std::move(arguments), outputs.slots.at(0));
}

std::unique_ptr<Instruction> make_size_read(
    const c10::OperatorHandle& op,
    const std::vector<Source>& arguments,
    const OutputSlots& outputs) {
  const auto read = find_read(op.operator_name());
  if (read == nullptr) {
    return nullptr;
  }
  auto dim = arguments.size() > 1 ? arguments[1] : Source();
  return std::make_unique<SizeRead>(read, arguments[0], std::move(dim), outputs.slots.at(0));
}

} // namespace weft::graph
