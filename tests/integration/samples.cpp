#include "tests/integration/samples.h"

#include "weft/rules/registry.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

namespace weft::testing {

namespace {

using Inputs = std::vector<at::Tensor>;
using Shapes = std::vector<std::vector<int64_t>>;

/// Between 0.1 and 0.9, where most functions are defined; the same every time.
at::Tensor values(c10::IntArrayRef sizes, int64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::rand(sizes, generator, at::kFloat) * 0.8 + 0.1;
}

Inputs inputs_of(const Shapes& shapes) {
  Inputs inputs;
  for (const auto& shape : shapes) {
    inputs.push_back(values(shape, static_cast<int64_t>(inputs.size()) + 1));
  }
  return inputs;
}

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
      inputs.push_back(values(second ? shape.slice(1) : shape, static_cast<int64_t>(inputs.size()) + 1));
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
    op.callBoxed(stack);
    Inputs outputs;
    for (const auto& value : stack) {
      if (value.isTensor()) {
        outputs.push_back(value.toTensor());
      }
    }
    return outputs;
  };
  return Sample{name_of(c10::toString(op.operator_name()), inputs), inputs, call};
}

void add_made_up(std::vector<Sample>& samples, const std::set<std::string>& by_hand) {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto all = dispatcher.getAllOpNames();
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
  });
  for (const auto& name : all) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->schema().is_mutable() || name.name.ends_with('_') ||
        RuleRegistry::instance().find(name.name) == nullptr || by_hand.contains(name.name)) {
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
      samples.push_back(std::move(*sample));
    }
  }
}

} // namespace

std::vector<Sample> all_samples() {
  std::vector<Sample> samples;
  std::set<std::string> by_hand;
  const auto add = [&](const std::string& op, const Shapes& shapes, auto call) {
    by_hand.insert(op);
    auto inputs = inputs_of(shapes);
    samples.push_back({name_of(op, inputs), inputs, [call](const Inputs& t) { return Inputs{call(t)}; }});
  };
  add("aten::mm", {{5, 4}, {4, 3}}, [](const Inputs& t) { return at::mm(t[0], t[1]); });
  add("aten::bmm", {{2, 5, 4}, {2, 4, 3}}, [](const Inputs& t) { return at::bmm(t[0], t[1]); });
  add("aten::mv", {{5, 4}, {4}}, [](const Inputs& t) { return at::mv(t[0], t[1]); });
  add("aten::dot", {{5}, {5}}, [](const Inputs& t) { return at::dot(t[0], t[1]); });
  add("aten::addmm", {{3}, {5, 4}, {4, 3}}, [](const Inputs& t) { return at::addmm(t[0], t[1], t[2], 2, 3); });
  add("aten::baddbmm", {{2, 5, 3}, {2, 5, 4}, {2, 4, 3}},
      [](const Inputs& t) { return at::baddbmm(t[0], t[1], t[2]); });
  add("aten::linear", {{2, 5, 4}, {3, 4}, {3}}, [](const Inputs& t) { return at::linear(t[0], t[1], t[2]); });
  add("aten::linear", {{5, 4}, {3, 4}}, [](const Inputs& t) { return at::linear(t[0], t[1]); });
  add("aten::matmul", {{2, 5, 4}, {4, 3}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  add("aten::matmul", {{3, 1, 5, 4}, {2, 4, 3}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  add("aten::matmul", {{4}, {2, 4, 3}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  add("aten::matmul", {{2, 3, 4}, {4}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  add("aten::view", {{12, 8}}, [](const Inputs& t) { return t[0].view({16, 6}); });
  add("aten::view", {{6, 4}}, [](const Inputs& t) { return t[0].view({2, 3, -1}); });
  add("aten::view", {{2, 3, 4}}, [](const Inputs& t) { return t[0].view({6, 4}); });
  add("aten::view", {{2, 3, 4}}, [](const Inputs& t) { return t[0].view({24}); });
  add("aten::view", {{5, 1, 4}}, [](const Inputs& t) { return t[0].view({5, 4, 1}); });
  add("aten::transpose", {{2, 3, 4}}, [](const Inputs& t) { return t[0].transpose(0, -1); });
  add("aten::t", {{5, 4}}, [](const Inputs& t) { return t[0].t(); });
  add("aten::permute", {{2, 3, 4}}, [](const Inputs& t) { return t[0].permute({2, 0, 1}); });
  add("aten::unsqueeze", {{5, 4}}, [](const Inputs& t) { return t[0].unsqueeze(1); });
  add("aten::squeeze", {{5, 1, 4}}, [](const Inputs& t) { return t[0].squeeze(1); });
  add("aten::squeeze", {{1, 5, 1}}, [](const Inputs& t) { return t[0].squeeze(); });
  add("aten::expand", {{5, 1}}, [](const Inputs& t) { return t[0].expand({3, 5, 4}); });
  add("aten::select", {{5, 4}}, [](const Inputs& t) { return t[0].select(1, 2); });
  add("aten::slice", {{5, 4}}, [](const Inputs& t) { return t[0].slice(0, 1, 4, 2); });
  add("aten::sum", {{5, 4}}, [](const Inputs& t) { return t[0].sum(std::vector<int64_t>{1}, /*keepdim=*/true); });
  add("aten::sum", {{5, 4}}, [](const Inputs& t) { return t[0].sum(); });
  add("aten::amax", {{5, 4}}, [](const Inputs& t) { return t[0].amax({0}); });
  add("aten::prod", {{5, 4}}, [](const Inputs& t) { return t[0].prod(1); });
  add("aten::mean", {{5, 4}}, [](const Inputs& t) { return t[0].mean(std::vector<int64_t>{0}); });
  add("aten::mean", {{5, 4}}, [](const Inputs& t) { return t[0].mean(); });
  // Away from where the quotient jumps.
  add("aten::remainder", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::remainder(t[0], t[1] + 2); });
  add("aten::fmod", {{5, 4}, {4}}, [](const Inputs& t) { return at::fmod(t[0], t[1] + 2); });
  add("aten::where", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::where(t[0] > t[1], t[0], t[1]); });
  add_made_up(samples, by_hand);
  return samples;
}

} // namespace weft::testing
