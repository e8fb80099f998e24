#include "tests/integration/samples.h"

#include "tests/integration/oracle_composite.h"
#include "weft/rules/registry.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft::testing {

namespace {

std::string name_of(const std::string& op, const Inputs& inputs) {
  auto name = op;
  for (const auto& input : inputs) {
    name += " " + c10::str(input.sizes());
  }
  return name;
}

/// An operator called through the dispatcher, with what its schema asks for besides tensors.
std::optional<Sample> made_up(const c10::OperatorHandle& op, c10::IntArrayRef shape, bool broadcast) {
  std::vector<c10::IValue> arguments;
  Inputs inputs;
  std::vector<size_t> positions;
  for (const auto& argument : op.schema().arguments()) {
    const auto kind = argument.type()->kind();
    if (kind == c10::TypeKind::TensorType) {
      positions.push_back(arguments.size());
      const auto second = broadcast && !inputs.empty();
      inputs.push_back(sample_values(second ? shape.slice(1) : shape, static_cast<int64_t>(inputs.size()) + 1));
      arguments.emplace_back(inputs.back());
    } else if (argument.default_value()) {
      arguments.push_back(*argument.default_value());
    } else if (kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType) {
      arguments.emplace_back(0.7);
    } else if (kind == c10::TypeKind::IntType && argument.name() == "dim") {
      arguments.emplace_back(int64_t{1});
    } else if (argument.name() == "dim" && kind == c10::TypeKind::OptionalType) {
      arguments.emplace_back(std::vector<int64_t>{0});
    } else if (argument.name() == "half_to_float" || kind == c10::TypeKind::BoolType) {
      arguments.emplace_back(false);
    } else if (argument.name() == "input_dtype") {
      arguments.emplace_back(static_cast<int64_t>(at::kFloat));
    } else if (kind == c10::TypeKind::OptionalType) {
      arguments.emplace_back();
    } else {
      return std::nullopt;
    }
  }
  const auto call = [op, arguments, positions](const Inputs& tensors) {
    auto stack = arguments;
    for (size_t i = 0; i < positions.size(); ++i) {
      stack[positions[i]] = tensors[i];
    }
    if (is_taken_apart(op)) {
      return call_composite(op, std::move(stack));
    }
    op.callBoxed(stack);
    return tensors_on(stack);
  };
  return Sample{name_of(c10::toString(op.operator_name()), inputs), inputs, call};
}

} // namespace

at::Tensor sample_values(c10::IntArrayRef sizes, int64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::rand(sizes, generator, at::kFloat) * 0.8 + 0.1;
}

void Samples::add(const std::string& op, const Shapes& shapes, std::function<at::Tensor(const Inputs&)> call) {
  Inputs inputs;
  for (const auto& shape : shapes) {
    inputs.push_back(sample_values(shape, static_cast<int64_t>(inputs.size()) + 1));
  }
  add_with(op, std::move(inputs), [call = std::move(call)](const Inputs& t) { return Inputs{call(t)}; });
}

void Samples::add_with(const std::string& op, Inputs inputs, std::function<Inputs(const Inputs&)> call) {
  ops_.insert(op);
  auto name = name_of(op, inputs);
  samples_.push_back({std::move(name), std::move(inputs), std::move(call)});
}

void Samples::add_composite(
    const std::string& op,
    Inputs inputs,
    std::function<std::vector<c10::IValue>(const Inputs&)> arguments) {
  const auto handle = operator_named(op);
  ops_.insert(handle.schema().name());
  auto name = name_of(op, inputs);
  const auto call = [handle, arguments = std::move(arguments)](const Inputs& tensors) {
    return call_composite(handle, arguments(tensors));
  };
  samples_.push_back({std::move(name), std::move(inputs), call});
}

void Samples::add_made_up() {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto all = dispatcher.getAllOpNames();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
  });
  for (const auto& name : all) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->schema().is_mutable() || name.name.ends_with('_') ||
        RuleRegistry::instance().find(name.name) == nullptr || ops_.contains(name.name) ||
        name.name.starts_with("aten::empty") || // holds no values
        name.name.starts_with("aten::lift")) {  // gives back its argument: with a gradient it would refer to itself
      continue;
    }
    const bool is_backward = name.name.find("backward") != std::string::npos; // takes what forward gave, as it is
    for (const bool broadcast : {false, true}) {
      if (broadcast && is_backward) {
        continue;
      }
      auto sample = made_up(*op, {5, 4}, broadcast);
      if (!sample || (broadcast && sample->inputs.size() < 2)) {
        continue;
      }
      try {
        sample->call(sample->inputs);
      } catch (const std::exception&) {
        continue; // not for floats, or not for these shapes: the single device does not take it either
      }
      samples_.push_back(std::move(*sample));
    }
  }
}

std::vector<Sample> all_samples() {
  Samples samples;
  add_matmul_samples(samples);
  add_view_samples(samples);
  add_reduction_samples(samples);
  add_pointwise_samples(samples);
  add_joining_samples(samples);
  add_indexing_samples(samples);
  add_creation_samples(samples);
  add_sorting_samples(samples);
  add_norm_samples(samples);
  add_embedding_samples(samples);
  add_loss_samples(samples);
  add_attention_samples(samples);
  add_convolution_samples(samples);
  add_spatial_samples(samples);
  add_composite_view_samples(samples);
  add_composite_pointwise_samples(samples);
  add_composite_layer_samples(samples);
  samples.add_made_up();
  return samples.all();
}

} // namespace weft::testing
