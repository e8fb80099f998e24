#include "tests/support/move_programs.h"

#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/analysis/trial_values.h"
#include "weft/graph/exec/executor.h"
#include "weft/redistribute/plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft::testing {

using graph::Argument;
using graph::Program;
using graph::Size;
using graph::Sizes;
using graph::Value;

Program move_program(
    const DeviceMesh& mesh,
    const Sizes& sizes,
    const Layout& source,
    const std::vector<Layout>& targets,
    c10::ScalarType dtype) {
  Program program;
  program.mesh = mesh;
  auto& built = *program.graph;
  auto* x = built.add_input("x", graph::contiguous_type(dtype, sizes));
  x->layout = source;
  program.inputs.emplace_back().value = x;
  for (const auto& size : sizes) {
    for (const auto& symbol : size.symbols()) {
      if (program.symbols.try_emplace(symbol, graph::Symbol{.hint = 4, .min = 0, .max = std::nullopt}).second) {
        const graph::NumberType number{graph::NumberKind::Int, symbol};
        program.inputs.emplace_back().value = built.add_input("size_" + symbol, number);
      }
    }
  }
  const graph::TrialValues values(program);
  const auto spec = TensorSpec::make(mesh, source, values.of(sizes), dtype);
  std::vector<Value*> results;
  for (const auto& target : targets) {
    auto* current = x;
    for (const auto& step : plan(spec, spec->with(target)).steps) {
      auto* node = built.insert(nullptr, step, {Argument::operand(0)}, {current}, {.types = {x->type}});
      node->output()->layout = step.after;
      current = node->output();
    }
    program.outputs.emplace_back().operand = results.size();
    results.push_back(current);
  }
  built.set_return(results);
  return program;
}

std::vector<MoveResults> run_moves(
    const Program& program,
    const Layout& source,
    const std::vector<MoveRun>& runs,
    const std::function<Program(int64_t)>& make) {
  const auto& mesh = *program.mesh;
  std::vector<MoveResults> results(
      runs.size(), MoveResults(program.outputs.size(), std::vector<at::Tensor>(mesh.size())));
  run_on_ranks(mesh.size(), [&](int64_t rank) {
    graph::Executor executor(std::make_shared<const Program>(make(rank)));
    for (size_t run = 0; run < runs.size(); ++run) {
      std::vector<c10::IValue> inputs = {
          local_by_definition(runs[run].global, source, mesh.shape(), coordinate_at(rank, mesh.shape()))};
      for (size_t i = 1; i < program.inputs.size(); ++i) {
        inputs.emplace_back(
            runs[run].symbols.at(std::get<graph::NumberType>(program.inputs[i].value->type).expression));
      }
      const auto outputs = executor.run(std::move(inputs));
      for (size_t i = 0; i < outputs.size(); ++i) {
        results[run][i][rank] = outputs[i].toTensor();
      }
    }
  });
  return results;
}

void expect_locals_of(
    const at::Tensor& global,
    const Layout& source,
    const Layout& target,
    const std::vector<at::Tensor>& locals,
    c10::IntArrayRef mesh_shape) {
  const auto shards_only = without_partial(target);
  const auto values = reduce_partials(locals, target, mesh_shape);
  for (size_t rank = 0; rank < locals.size(); ++rank) {
    const auto expected =
        local_by_definition(global, shards_only, mesh_shape, coordinate_at(static_cast<int64_t>(rank), mesh_shape));
    ASSERT_TRUE(values[rank].equal(expected) && locals[rank].scalar_type() == global.scalar_type())
        << source << " -> " << target << " on rank " << rank << " of " << mesh_shape << ", shape " << global.sizes()
        << "\n"
        << values[rank] << "\nexpected\n"
        << expected;
  }
}

at::Tensor numbered(c10::IntArrayRef sizes) {
  const auto count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  return (at::arange(count, at::kFloat) - count / 2).view(sizes);
}

} // namespace weft::testing
