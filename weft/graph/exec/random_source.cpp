#include "weft/graph/exec/random_source.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/stack.h>

#include <mutex>

namespace weft::graph {

namespace {

bool takes_generator(const c10::Argument& argument) {
  auto type = argument.type();
  if (const auto optional = type->cast<c10::OptionalType>()) {
    type = optional->getElementType();
  }
  return type->kind() == c10::TypeKind::GeneratorType;
}

/// The device of the first tensor, or else of the device argument.
c10::Device device_of(c10::ArrayRef<c10::IValue> arguments) {
  for (const auto& value : arguments) {
    if (value.isTensor() && value.toTensor().defined()) {
      return value.toTensor().device();
    }
  }
  for (const auto& value : arguments) {
    if (value.isDevice()) {
      return value.toDevice();
    }
  }
  return c10::kCPU;
}

at::Tensor state_of(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

/// While the object exists, torch's default generator has the state of this generator; at the end this one takes over
/// its state.
class InPlaceOfDefault {
 public:
  explicit InPlaceOfDefault(at::Generator own)
      : turn_(turns()),
        own_(std::move(own)),
        default_(at::globalContext().defaultGenerator(own_.device())),
        outer_(state_of(default_)) {
    set_state(default_, state_of(own_));
  }
  ~InPlaceOfDefault() {
    set_state(own_, state_of(default_));
    set_state(default_, outer_);
  }
  InPlaceOfDefault(const InPlaceOfDefault&) = delete;
  InPlaceOfDefault& operator=(const InPlaceOfDefault&) = delete;

 private:
  static std::mutex& turns() {
    static auto* mutex = new std::mutex();
    return *mutex;
  }

  std::lock_guard<std::mutex> turn_;
  at::Generator own_;
  at::Generator default_;
  at::Tensor outer_;
};

} // namespace

RandomSource::RandomSource(bool has_own) {
  if (has_own) {
    seed_ = c10::default_rng_seed_val;
  }
}

void RandomSource::manual_seed(uint64_t seed) {
  seed_ = seed;
  own_.clear();
}

std::optional<at::Generator> RandomSource::generator(c10::Device device) {
  if (!seed_) {
    return std::nullopt;
  }
  if (const auto found = own_.find(device); found != own_.end()) {
    return found->second;
  }
  auto generator = device.is_cpu() ? at::make_generator<at::CPUGeneratorImpl>()
                                   : at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(*seed_);
  own_.emplace(device, generator);
  return generator;
}

RandomOperator::RandomOperator(const c10::FunctionSchema& schema) : arguments_(schema.arguments().size()) {
  const auto& arguments = schema.arguments();
  const auto found = std::find_if(arguments.begin(), arguments.end(), takes_generator);
  if (found != arguments.end()) {
    generator_ = found - arguments.begin();
  }
}

void RandomOperator::call(const c10::OperatorHandle& op, torch::jit::Stack& stack, RandomSource& source) const {
  const auto arguments = c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - arguments_);
  const auto own = source.generator(device_of(arguments));
  if (own && !generator_) {
    const InPlaceOfDefault scope(*own);
    op.callBoxed(stack);
    return;
  }
  if (own && torch::jit::peek(stack, *generator_, arguments_).isNone()) {
    torch::jit::peek(stack, *generator_, arguments_) = *own;
  }
  op.callBoxed(stack);
}

} // namespace weft::graph
