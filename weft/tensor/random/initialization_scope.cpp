#include "weft/tensor/random/initialization_scope.h"

#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/random/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <span>

namespace weft {

namespace {

using torch::jit::Stack;

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// The tensor that has the memory: the local tensor of a distributed one, or the plain tensor itself.
const at::Tensor& local_of(const at::Tensor& tensor) {
  const auto* impl = as_dtensor(tensor);
  return impl == nullptr ? tensor : impl->local();
}

/// The position of the generator argument if the operator draws numbers and the caller gave no generator.
std::optional<size_t> missing_generator(const c10::FunctionSchema& schema, std::span<const c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto optional = schema.arguments()[i].type()->cast<c10::OptionalType>();
    if (optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType) {
      return arguments[i].isNone() ? std::optional(i) : std::nullopt;
    }
  }
  return std::nullopt;
}

bool is_plain_elsewhere(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && !is_dtensor(value.toTensor()) &&
      !value.toTensor().is_cpu() && !value.toTensor().is_meta();
}

/// Replaces plain tensors on other devices by copies on the CPU. Returns the original arguments.
std::vector<c10::IValue> move_to_cpu(std::span<c10::IValue> arguments) {
  std::vector<c10::IValue> originals(arguments.begin(), arguments.end());
  for (auto& argument : arguments) {
    if (is_plain_elsewhere(argument)) {
      argument = argument.toTensor().cpu();
    }
  }
  return originals;
}

/// Copies the tensors that were written on the CPU to the original tensors, and puts these on the stack.
void move_back(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> originals, Stack* stack) {
  const auto first = stack->size() - schema.returns().size();
  for (size_t r = 0; r < schema.returns().size(); ++r) {
    const auto* alias = schema.returns()[r].alias_info();
    for (size_t i = 0; alias != nullptr && alias->isWrite() && i < originals.size(); ++i) {
      const auto* argument = schema.arguments()[i].alias_info();
      if (argument != nullptr && *argument == *alias && is_plain_elsewhere(originals[i])) {
        originals[i].toTensor().copy_((*stack)[first + r].toTensor());
        (*stack)[first + r] = originals[i];
      }
    }
  }
}

at::Generator checked(at::Generator generator) {
  TORCH_CHECK_VALUE(
      generator.defined() && generator.device().is_cpu(),
      "[InitializationScope] a generator on the CPU is required, but got ",
      generator.defined() ? c10::str("one on ", generator.device()) : std::string("none"),
      ". Make it with at::make_generator<at::CPUGeneratorImpl>(seed), or give a seed.");
  return generator;
}

} // namespace

InitializationScope::InitializationScope(uint64_t seed)
    : InitializationScope(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

InitializationScope::InitializationScope(at::Generator generator)
    : generator_(checked(std::move(generator))), outer_(exchange_stream_generator(generator_)) {}

InitializationScope::~InitializationScope() {
  exchange_stream_generator(std::move(outer_));
}

bool InitializationScope::has_written(const at::Tensor& tensor) const {
  const auto& local = local_of(tensor);
  return local.has_storage() && written_.contains(local.storage().unsafeGetStorageImpl());
}

void InitializationScope::note_written(const at::Tensor& tensor) {
  const auto& local = local_of(tensor);
  if (local.defined() && local.has_storage()) {
    written_.try_emplace(local.storage().unsafeGetStorageImpl(), local.storage().getWeakStorageImpl());
  }
}

void InitializationScope::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto& schema = op.schema();
  const auto count = schema.arguments().size();
  const std::span<c10::IValue> arguments(stack->data() + (stack->size() - count), count);
  for (size_t i = 0; i < count; ++i) {
    if (is_written(schema.arguments()[i]) && arguments[i].isTensor()) {
      note_written(arguments[i].toTensor());
    } else if (is_written(schema.arguments()[i]) && arguments[i].isTensorList()) {
      for (const at::Tensor& tensor : arguments[i].toTensorList()) {
        note_written(tensor);
      }
    }
  }
  const auto generator = missing_generator(schema, arguments);
  if (generator) {
    arguments[*generator] = generator_;
  }
  if (stand_ins_.run(op, keys, stack)) {
    return;
  }
  if (!generator || std::none_of(arguments.begin(), arguments.end(), is_plain_elsewhere)) {
    op.redispatchBoxed(keys, stack);
    return;
  }
  const auto originals = move_to_cpu(arguments);
  op.callBoxed(stack); // with new keys: the tensors are on another device now
  move_back(schema, originals, stack);
}

} // namespace weft
