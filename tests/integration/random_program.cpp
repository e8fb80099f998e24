#include "tests/integration/random_program.h"

#include "tests/integration/random_program_ops.h"
#include "tests/support/layout_cases.h"
#include "weft/tensor/distribute.h"

#include <algorithm>

namespace weft::testing {

namespace {

constexpr double kLargest = 30; // of the values, so that rounding stays small against the tolerance
constexpr double kLargestGradient = 1e6;
constexpr int64_t kMostElements = 400;
constexpr int64_t kMostDims = 5;
constexpr size_t kValuesInLoss = 6;
constexpr double kTolerance = 1e-9;
constexpr double kRoughTolerance = 1e-4;

/// Between -1 and 1, by the program's seed.
at::Tensor input_values(const RandomProgram& program, size_t input) {
  auto generator = at::detail::createCPUGenerator(program.seed * 101 + input);
  return at::rand(program.inputs[input].shape, generator, at::kDouble) * 2 - 1;
}

bool is_within(const at::Tensor& tensor, double largest) {
  return tensor.numel() == 0 || tensor.abs().max().item<double>() <= largest; // not where it holds a NaN
}

Tensors operands_of(const ProgramStep& step, const Tensors& values) {
  Tensors operands;
  for (const auto i : step.operands) {
    operands.push_back(values[i]);
  }
  return operands;
}

/// Of the last values, each element counted differently; undefined where none of them has a gradient.
at::Tensor loss_of(const Tensors& values, const std::function<at::Tensor(const at::Tensor&)>& placed) {
  at::Tensor loss;
  for (size_t i = values.size() - std::min(values.size(), kValuesInLoss); i < values.size(); ++i) {
    if (values[i].requires_grad()) {
      const auto weights = at::linspace(-1, 2, values[i].numel(), at::kDouble).view(values[i].sizes());
      const auto term = (values[i] * placed(weights)).sum();
      loss = loss.defined() ? loss + term : term;
    }
  }
  return loss;
}

bool is_refusal(const std::string& text) {
  return text.find("is a view that had to be redistributed") != std::string::npos;
}

std::optional<ProgramStep> random_step(Dice& dice, const Tensors& values, bool with_gradients) {
  const auto& ops = program_ops();
  const auto op = static_cast<size_t>(dice.below(static_cast<int64_t>(ops.size())));
  // The latest ones more often, so that programs are deep.
  const auto count = static_cast<int64_t>(values.size());
  const auto first = dice.coin() ? count - 1 - dice.below(std::min<int64_t>(count, 4)) : dice.below(count);
  auto step = ops[op].has_gradient || !with_gradients ? ops[op].propose(dice, values, first) : std::nullopt;
  if (step) {
    step->op = op;
  }
  return step;
}

/// A step's result; nothing where the operator does not take its operands, or the result is not of use.
std::optional<at::Tensor> try_step(const ProgramStep& step, const Tensors& values) {
  try {
    const auto operands = operands_of(step, values);
    // What a tensor becomes that is written from a view of itself depends on the order of the elements.
    const bool reads_itself = program_ops()[step.op].is_in_place && operands.size() > 1 &&
        operands[0].is_alias_of(operands[1]) && !operands[0].is_same(operands[1]);
    if (reads_itself) {
      return std::nullopt;
    }
    auto result = program_ops()[step.op].run(operands, step.numbers);
    const bool is_useful = result.numel() > 0 && result.numel() <= kMostElements && result.dim() <= kMostDims &&
        is_within(result.detach(), kLargest);
    return is_useful ? std::optional(result) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

RandomProgram attempt(uint64_t seed, Dice& dice) {
  static const std::vector<std::vector<int64_t>> meshes = {{2}, {3}, {4}, {2, 2}};
  RandomProgram program;
  program.seed = seed;
  program.mesh_shape = meshes[seed % meshes.size()];
  program.with_gradients = dice.coin();
  const auto count = 2 + dice.below(3);
  const auto common = 1 + dice.below(7); // a size that inputs share, so that they fit each other
  Tensors values;
  for (int64_t i = 0; i < count; ++i) {
    ProgramInput input;
    const auto rank = 1 + dice.below(3);
    for (int64_t d = 0; d < rank; ++d) {
      input.shape.push_back(dice.below(2) == 0 ? common : 1 + dice.below(7));
    }
    std::vector<Placement> placements = {Replicate(), Partial()};
    for (int64_t d = 0; d < rank; ++d) {
      placements.push_back(Shard(d));
    }
    const auto layouts = all_layouts(static_cast<int64_t>(program.mesh_shape.size()), rank, placements);
    input.layout = layouts[dice.below(static_cast<int64_t>(layouts.size()))];
    program.inputs.push_back(input);
    values.push_back(input_values(program, i).set_requires_grad(program.with_gradients));
  }
  const auto length = 10 + static_cast<size_t>(dice.below(21));
  for (int64_t tries = 0; tries < 1000 && program.steps.size() < length; ++tries) {
    const auto step = random_step(dice, values, program.with_gradients);
    const auto result = step ? try_step(*step, values) : std::nullopt;
    if (result) {
      program.steps.push_back(*step);
      values.push_back(*result);
    }
  }
  return program;
}

bool is_valid(const RandomProgram& program) {
  try {
    const auto result = run_on_one_device(program);
    const auto are_within = [](const Tensors& tensors, double largest) {
      return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
        return !tensor.defined() || is_within(tensor, largest);
      });
    };
    return are_within(result.values, kLargest) && are_within(result.gradients, kLargestGradient);
  } catch (const std::exception&) {
    return false; // something that a gradient needs was written to
  }
}

/// A step that is left out would have returned its first operand.
void run_steps(const RandomProgram& program, Tensors& values, const std::vector<size_t>& left_out) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const auto& step = program.steps[s];
    const bool runs = std::find(left_out.begin(), left_out.end(), s) == left_out.end();
    const auto operands = operands_of(step, values);
    values.push_back(runs ? program_ops()[step.op].run(operands, step.numbers) : operands[0]);
  }
}

std::string first_difference_of_results(
    const std::string& what,
    const Tensors& actual,
    const Tensors& expected,
    double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto name = what + std::to_string(i);
    if (actual[i].defined() != expected[i].defined()) {
      return name + (actual[i].defined() ? " is there, but should not be" : " is missing");
    }
    if (!expected[i].defined()) {
      continue;
    }
    if (actual[i].sizes() != expected[i].sizes() || actual[i].scalar_type() != expected[i].scalar_type()) {
      return c10::str(
          name, " is ", actual[i].scalar_type(), actual[i].sizes(), " instead of ", expected[i].scalar_type(),
          expected[i].sizes());
    }
    const auto scale = expected[i].numel() == 0 ? 1 : std::max(1.0, expected[i].abs().max().item<double>());
    if (!is_within(actual[i] - expected[i], tolerance * scale)) {
      return c10::str(name, " is\n", actual[i], "\ninstead of\n", expected[i]);
    }
  }
  return {};
}

} // namespace

std::string RandomProgram::to_string() const {
  auto text =
      c10::str("seed ", seed, ", mesh ", c10::IntArrayRef(mesh_shape), with_gradients ? ", with gradients" : "", "\n");
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += c10::str("v", i, " = input ", c10::IntArrayRef(inputs[i].shape), " ", inputs[i].layout, "\n");
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    text += c10::str("v", inputs.size() + s, " = ", program_ops()[steps[s].op].name, " of");
    for (const auto operand : steps[s].operands) {
      text += c10::str(" v", operand);
    }
    text += steps[s].numbers.empty() ? "\n" : c10::str(" with ", c10::IntArrayRef(steps[s].numbers), "\n");
  }
  return text;
}

RandomProgram random_program(uint64_t seed) {
  Dice dice(seed);
  while (true) {
    auto program = attempt(seed, dice);
    if (program.steps.size() >= 10 && is_valid(program)) {
      return program;
    }
  }
}

ProgramResult run_on_one_device(const RandomProgram& program, const std::vector<size_t>& left_out) {
  ProgramResult result;
  Tensors values;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    values.push_back(input_values(program, i).set_requires_grad(program.with_gradients));
  }
  run_steps(program, values, left_out);
  const auto loss = loss_of(values, [](const at::Tensor& weights) { return weights; });
  if (loss.defined()) {
    loss.backward();
  }
  for (const auto& value : values) {
    result.values.push_back(value.detach());
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    result.gradients.push_back(values[i].grad());
  }
  return result;
}

ProgramResult run_distributed(const RandomProgram& program, const DeviceMesh& mesh) {
  ProgramResult result;
  Tensors values;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& [shape, layout] = program.inputs[i];
    const auto local = local_by_definition(input_values(program, i), layout, mesh.shape(), mesh.coordinate()).clone();
    values.push_back(from_local(local, mesh, layout, shape).detach().set_requires_grad(program.with_gradients));
  }
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const auto& step = program.steps[s];
    const auto& op = program_ops()[step.op];
    const auto operands = operands_of(step, values);
    try {
      values.push_back(op.run(operands, step.numbers));
    } catch (const c10::ValueError& error) {
      if (!op.is_in_place || !is_refusal(error.what_without_backtrace())) {
        throw;
      }
      result.refused.push_back(s);
      values.push_back(operands[0]);
    } catch (c10::Error& error) {
      error.add_context(c10::str("in step v", values.size(), " = ", op.name));
      throw;
    }
  }
  const auto replicated = Layout(Placements(mesh.ndim(), Replicate()));
  const auto loss =
      loss_of(values, [&](const at::Tensor& weights) { return distribute_tensor(weights, mesh, replicated); });
  if (loss.defined()) {
    loss.backward();
  }
  for (const auto& value : values) {
    result.values.push_back(full_tensor(value.detach()));
  }
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    result.gradients.push_back(values[i].grad().defined() ? full_tensor(values[i].grad()) : at::Tensor());
  }
  return result;
}

std::string RandomProgram::difference(const ProgramResult& actual, const ProgramResult& expected) const {
  const bool is_rough =
      std::any_of(steps.begin(), steps.end(), [](const ProgramStep& step) { return program_ops()[step.op].is_rough; });
  const auto tolerance = is_rough ? kRoughTolerance : kTolerance;
  const auto text = first_difference_of_results("v", actual.values, expected.values, tolerance);
  return text.empty()
      ? first_difference_of_results("the gradient of v", actual.gradients, expected.gradients, tolerance)
      : text;
}

std::optional<RandomProgram> without_step(const RandomProgram& program, size_t step) {
  const auto dropped = program.inputs.size() + step;
  const auto values = run_on_one_device(program).values;
  auto shorter = program;
  shorter.steps.erase(shorter.steps.begin() + static_cast<int64_t>(step));
  for (size_t s = step; s < shorter.steps.size(); ++s) {
    for (auto& operand : shorter.steps[s].operands) {
      if (operand == dropped) {
        for (operand = 0; operand < dropped && values[operand].sizes() != values[dropped].sizes();) {
          ++operand;
        }
        if (operand == dropped) {
          return std::nullopt;
        }
      } else if (operand > dropped) {
        --operand;
      }
    }
  }
  return is_valid(shorter) ? std::optional(shorter) : std::nullopt;
}

} // namespace weft::testing
