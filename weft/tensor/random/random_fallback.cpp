#include "weft/tensor/random/random_fallback.h"

#include "weft/core/layout_algebra.h"
#include "weft/propagation/is_random.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/replicated_plain.h"
#include "weft/tensor/random/philox.h"
#include "weft/tensor/random/random_fill.h"
#include "weft/tensor/random/random_math.h"
#include "weft/tensor/random/random_state.h"
#include "weft/tensor/random/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace weft {

namespace {

using torch::jit::Stack;

bool has_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  return op.hasKernelForDispatchKey(key);
}

std::optional<size_t> generator_argument(const c10::FunctionSchema& schema) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    auto type = schema.arguments()[i].type();
    if (const auto optional = type->cast<c10::OptionalType>()) {
      type = optional->getElementType();
    }
    if (type->kind() == c10::TypeKind::GeneratorType) {
      return i;
    }
  }
  return std::nullopt;
}

at::Generator seeded_generator(c10::Device device, RandomCall call) {
  const auto block = philox(call.seed, 0, call.number);
  const auto seed = random_math::join(block.words[0], block.words[1]);
  auto generator = device.is_cpu() ? at::make_generator<at::CPUGeneratorImpl>()
                                   : at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

at::Generator generator_for(const DTensorImpl& tensor, const std::optional<at::Generator>& given) {
  const auto call = next_random_call(given);
  if (!tensor.local().is_meta()) {
    before_draw(tensor.spec()->mesh(), call);
  }
  return seeded_generator(tensor.device(), call);
}

/// Runs an operator on replicated tensors, with a generator that is the same on all ranks.
class SeededKernel final : public c10::OperatorKernel {
 public:
  explicit SeededKernel(size_t generator) : generator_(generator) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) const {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto& schema = op.schema();
    const auto first = stack->size() - schema.arguments().size();
    const c10::SmallVector<c10::IValue, 8> originals(stack->begin() + static_cast<int64_t>(first), stack->end());
    const DTensorImpl* some = nullptr;
    for (size_t i = 0; i < originals.size(); ++i) {
      if (!originals[i].isTensor() || !originals[i].toTensor().defined()) {
        continue;
      }
      const auto& tensor = originals[i].toTensor();
      const auto* impl = as_dtensor(tensor);
      TORCH_CHECK_TYPE(
          impl != nullptr || counts_as_replicated(tensor), "[", schema.name(),
          "] distributed and plain tensors cannot be mixed, but argument '", schema.arguments()[i].name(),
          "' is a plain tensor of shape ", tensor.sizes(), ". Distribute it with distribute_tensor or from_local.");
      if (impl != nullptr) {
        const auto* alias = schema.arguments()[i].alias_info();
        checked_values(schema.name().c_str(), tensor);
        (*stack)[first + i] = replicated_local(op, *impl, alias != nullptr && alias->isWrite());
        some = impl;
      }
    }
    TORCH_INTERNAL_ASSERT(some != nullptr);
    check_not_traced(some->local());
    const auto given = originals[generator_].toOptional<at::Generator>();
    const auto stream = stream_generator(given);
    TORCH_CHECK_NOT_IMPLEMENTED(
        !stream || some->device().is_cpu(), "[", schema.name(),
        "] is drawn on the CPU while a module is initialised, "
        "but got a tensor on ",
        some->device(), ". Draw it as a plain tensor on the CPU and distribute that.");
    (*stack)[first + generator_] = stream ? *stream : generator_for(*some, given);
    op.callBoxed(stack);
    wrap_results(schema, *some->spec(), originals, stack);
  }

 private:
  static at::Tensor replicated_local(const c10::OperatorHandle& op, const DTensorImpl& impl, bool is_written) {
    const auto target = impl.spec()->with(replicated(impl.spec()->mesh()));
    if (target == impl.spec()) {
      return impl.local();
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        !is_written, "[", op.schema().name(), "] can be stored in a replicated tensor only, but got ", *impl.spec(),
        ". Redistribute it to R first, or use the functional form.");
    return redistribute_local(impl.local(), impl.spec(), target).wait();
  }

  static void wrap_results(
      const c10::FunctionSchema& schema,
      const TensorSpec& spec,
      c10::ArrayRef<c10::IValue> originals,
      Stack* stack) {
    const auto first = stack->size() - schema.returns().size();
    for (size_t r = 0; r < schema.returns().size(); ++r) {
      auto& value = (*stack)[first + r];
      const auto* alias = schema.returns()[r].alias_info();
      if (alias != nullptr && alias->isWrite()) {
        for (size_t i = 0; i < originals.size(); ++i) {
          const auto* argument = schema.arguments()[i].alias_info();
          if (argument != nullptr && *argument == *alias) {
            value = originals[i];
          }
        }
      } else if (value.isTensor() && value.toTensor().defined()) {
        const auto local = value.toTensor().contiguous();
        value = make_dtensor(
            local, TensorSpec::make(spec.mesh(), replicated(spec.mesh()), local.sizes(), local.scalar_type()));
      }
    }
  }

  size_t generator_;
};

} // namespace

bool is_composed_of_random(const c10::OperatorHandle& op) {
  return is_random(op) && has_kernel(op, c10::DispatchKey::CompositeExplicitAutograd);
}

void register_random_fallback(torch::Library& library) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = name.name.starts_with("aten::") ? dispatcher.findOp(name) : std::nullopt;
    if (!op || !op->hasSchema() || !is_random(*op) || is_composed_of_random(*op) || has_kernel(*op, kDTensorKey) ||
        has_kernel(*op, c10::DispatchKey::CompositeImplicitAutograd)) {
      continue;
    }
    if (auto kernel = seeded_kernel(*op)) {
      library.impl(c10::toString(name).c_str(), std::move(*kernel));
    }
  }
}

std::optional<torch::CppFunction> seeded_kernel(const c10::OperatorHandle& op) {
  const auto generator = generator_argument(op.schema());
  if (!is_random(op) || !generator) {
    return std::nullopt;
  }
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<SeededKernel>(*generator));
}

std::optional<size_t> inner_dropout_argument(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  // An operator that returns no tensor (_fused_sdp_choice) draws nothing.
  if (!is_random(op) || schema.returns().empty() || schema.returns()[0].type()->kind() != c10::TypeKind::TensorType) {
    return std::nullopt;
  }
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& name = schema.arguments()[i].name();
    if (name == "dropout_p" || name == "dropout") {
      return i;
    }
  }
  return std::nullopt;
}

void check_no_inner_dropout(const c10::OperatorHandle& op, const c10::IValue& probability) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      probability.toDouble() == 0, "[", op.schema().name(),
      "] a dropout of 0 is required on distributed tensors, but got ", probability.toDouble(),
      ": the kernel would draw numbers that differ between ranks. Use scaled_dot_product_attention, "
      "or dropout as an operator of its own.");
}

} // namespace weft
