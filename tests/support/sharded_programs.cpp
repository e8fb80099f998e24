#include "tests/support/sharded_programs.h"

#include "tests/support/layout_cases.h"
#include "weft/comm/run_on_ranks.h"
#include "weft/graph/exec/executor.h"
#include "weft/graph/exec/whole_values.h"
#include "weft/graph/ir/clone.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/passes/shard.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::testing {

using graph::Executor;
using graph::InputKind;
using graph::Node;
using graph::Program;
using graph::Value;

namespace {

at::Tensor small_numbers(const graph::TensorType& type, const RunCase& run, int64_t seed) {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (const auto& size : type.sizes) {
    sizes.push_back(size.evaluate(run.symbols));
    count *= sizes.back();
  }
  const auto numbers = (at::arange(count, at::kLong) * 7 + seed * 5).remainder(11).view(sizes);
  if (type.dtype == at::kBool) {
    return numbers.gt(4);
  }
  return c10::isFloatingType(type.dtype) ? (numbers.to(at::kDouble) / 4 - 1.25).to(type.dtype)
                                         : numbers.remainder(run.index_end).to(type.dtype);
}

void set_module_stack(Node& node) {
  const auto& module = node.origin.module;
  if (module.empty()) {
    return;
  }
  std::string stack = "L__self__,,Model";
  for (size_t end = module.find('.');; end = module.find('.', end + 1)) {
    const auto path = module.substr(0, end);
    stack += ";L__self__" + path + "," + path + ",Module";
    if (end == std::string::npos) {
      break;
    }
  }
  node.origin.metadata = {{"nn_module_stack", stack}};
}

/// The inputs of a run in the program's order.
std::vector<c10::IValue> whole_inputs(const Program& program, const RunCase& run) {
  std::vector<c10::IValue> result;
  size_t next = 0;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User) {
      continue;
    }
    if (input.value == nullptr) {
      result.push_back(*input.constant);
    } else if (!input.value->is_tensor()) {
      const auto& number = std::get<graph::NumberType>(input.value->type);
      result.emplace_back(graph::Size::parse(number.expression).evaluate(run.symbols));
    } else {
      result.emplace_back(
          next < run.inputs.size() ? run.inputs[next].clone()
                                   : small_numbers(input.value->tensor(), run, static_cast<int64_t>(result.size())));
      ++next;
    }
  }
  return result;
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  const auto wide = [](const at::Tensor& tensor) {
    return c10::isFloatingType(tensor.scalar_type()) ? tensor.to(at::kDouble) : tensor;
  };
  EXPECT_TRUE(
      actual.sizes() == expected.sizes() && actual.scalar_type() == expected.scalar_type() &&
      at::allclose(wide(actual), wide(expected), 1e-5, 1e-5, /*equal_nan=*/true))
      << what << " is\n"
      << actual << "\nexpected\n"
      << expected;
}

} // namespace

Program program_of(std::string_view text) {
  auto program = graph::parse_program(text);
  for (auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    set_module_stack(*node);
  }
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User) {
      const auto seed = static_cast<int64_t>(program.tensors.size()) + 3;
      program.tensors[input.target] = small_numbers(input.value->tensor(), {}, seed);
    }
  }
  graph::verify(program);
  return program;
}

Pass tensor_parallel_over(
    const std::string& mesh,
    const nn::ParallelPlan& plan,
    const graph::TensorParallelOptions& options) {
  return [=](Program& program) { graph::tensor_parallel(program, DeviceMesh::parse(mesh), plan, options); };
}

std::string text_after(const Pass& pass, std::string_view text) {
  auto program = program_of(text);
  pass(program);
  graph::verify(program);
  return graph::to_string(program);
}

std::string expect_same_on_ranks(const Pass& pass, std::string_view text, const RunCase& run) {
  const auto whole = std::make_shared<const Program>(program_of(text));
  auto sharded = graph::clone(*whole);
  pass(sharded);
  graph::verify(sharded);
  const auto after = graph::to_string(sharded);
  const auto& mesh = *sharded.mesh;

  std::vector<const graph::Input*> user_inputs;
  for (const auto& input : sharded.inputs) {
    if (input.kind == InputKind::User) {
      user_inputs.push_back(&input);
    }
  }
  std::vector<const graph::Output*> user_outputs;
  for (const auto& output : sharded.outputs) {
    if (output.kind == graph::OutputKind::User) {
      user_outputs.push_back(&output);
    }
  }
  constexpr int kRuns = 2;
  // By run, then by output, input or weight, then by rank.
  const auto inputs = whole_inputs(*whole, run);
  using Parts = std::vector<std::vector<at::Tensor>>;
  const auto parts_of = [&](size_t values) {
    return std::vector<Parts>(kRuns, Parts(values, std::vector<at::Tensor>(mesh.size())));
  };
  auto outputs = parts_of(user_outputs.size());
  auto changed = parts_of(user_inputs.size());
  auto weights = parts_of(sharded.inputs.size());
  run_on_ranks(mesh.size(), [&](int64_t rank) {
    auto local = graph::program_of_rank(sharded, rank);
    graph::verify(local);
    Executor executor(std::make_shared<const Program>(std::move(local)));
    const auto coordinate = coordinate_at(rank, mesh.shape());
    for (int i = 0; i < kRuns; ++i) {
      std::vector<c10::IValue> given;
      for (size_t k = 0; k < inputs.size(); ++k) {
        given.push_back(
            inputs[k].isTensor()
                ? c10::IValue(local_by_definition(
                                  inputs[k].toTensor(), *user_inputs[k]->value->layout, mesh.shape(), coordinate)
                                  .clone())
                : inputs[k]);
      }
      const auto results = executor.run(given);
      for (size_t k = 0; k < results.size(); ++k) {
        outputs[i][k][rank] = results[k].isTensor() ? results[k].toTensor().clone() : at::Tensor();
      }
      for (size_t k = 0; k < given.size(); ++k) {
        changed[i][k][rank] = given[k].isTensor() ? given[k].toTensor() : at::Tensor();
      }
      for (size_t k = 0; k < sharded.inputs.size(); ++k) {
        if (sharded.inputs[k].kind != InputKind::User) {
          weights[i][k][rank] = executor.tensor(sharded.inputs[k].target).clone();
        }
      }
    }
  });

  Executor alone(whole);
  for (int i = 0; i < kRuns; ++i) {
    std::vector<c10::IValue> given;
    for (const auto& input : inputs) {
      given.push_back(input.isTensor() ? c10::IValue(input.toTensor().clone()) : input);
    }
    const auto expected = alone.run(given);
    for (size_t k = 0; k < expected.size(); ++k) {
      if (expected[k].isTensor() && !user_outputs[k]->constant) {
        const auto* value = sharded.graph->return_node()->operand(user_outputs[k]->operand);
        expect_close(
            graph::whole_of(outputs[i][k], *value->layout, mesh.shape()), expected[k].toTensor(),
            c10::str("output ", k, " of run ", i, " of\n", after));
      }
    }
    for (size_t k = 0; k < given.size(); ++k) {
      if (given[k].isTensor()) {
        expect_close(
            graph::whole_of(changed[i][k], *user_inputs[k]->value->layout, mesh.shape()), given[k].toTensor(),
            c10::str("input ", k, " after run ", i, " of\n", after));
      }
    }
    for (size_t k = 0; k < sharded.inputs.size(); ++k) {
      const auto& input = sharded.inputs[k];
      if (input.kind != InputKind::User) {
        expect_close(
            graph::whole_of(weights[i][k], *input.value->layout, mesh.shape()), alone.tensor(input.target),
            c10::str(input.target, " after run ", i, " of\n", after));
      }
    }
  }
  return after;
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

} // namespace weft::testing
