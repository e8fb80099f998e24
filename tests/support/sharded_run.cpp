#include "tests/support/sharded_run.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/thread_ranks.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/localize/global_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::testing {

namespace {

using namespace weft::graph;

at::Tensor drawn(const TensorType& type, const Size::Values& values) {
  std::vector<int64_t> sizes;
  for (const auto& size : type.sizes) {
    sizes.push_back(size.evaluate(values));
  }
  return at::isFloatingType(type.dtype) ? at::randn(sizes, at::dtype(type.dtype))
                                        : at::randint(4, sizes, at::dtype(type.dtype));
}

/// Weights are put into the program; gives the user inputs.
std::vector<at::Tensor> draw(Program& program, const Size::Values& values) {
  at::manual_seed(0);
  std::vector<at::Tensor> inputs;
  for (const auto& input : program.inputs) {
    const auto tensor = drawn(input.value->tensor(), values);
    if (input.kind == InputKind::User) {
      inputs.push_back(tensor);
    } else {
      program.tensors[input.target] = tensor;
    }
  }
  return inputs;
}

std::vector<c10::IValue> values_of(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::IValue> values;
  for (const auto& tensor : tensors) {
    values.emplace_back(tensor.clone());
  }
  return values;
}

} // namespace

ShardedRun expect_same_sharded(
    const std::string& text,
    const std::string& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const Size::Values& sizes,
    const OverlapOptions& overlap) {
  auto global = std::make_shared<Program>(parse_program(text));
  const auto inputs = draw(*global, sizes);
  auto sharded = parse_program(text);
  sharded.tensors = global->tensors;
  auto decisions = shard(sharded, analysis_mesh(mesh), plan, options, overlap);
  verify(sharded);
  ShardedRun run{summarize(sharded), to_string(sharded), {}, std::move(decisions)};

  std::vector<std::shared_ptr<const Program>> ranks;
  std::vector<std::vector<c10::IValue>> values;
  for (const auto rank : sharded.mesh->ranks()) {
    ranks.push_back(std::make_shared<const Program>(program_of_rank(sharded, rank)));
    verify(*ranks.back());
    run.of_rank.push_back(to_string(*ranks.back()));
    auto& own = values.emplace_back();
    size_t next = 0;
    for (const auto& input : sharded.inputs) {
      if (input.kind == InputKind::User) {
        own.emplace_back(local_value(inputs[next++], *input.value->layout, place_in(*sharded.mesh, rank)).clone());
      }
    }
  }
  const auto expected = Executor(global).run(values_of(inputs));
  const auto outputs = ThreadRanks(ranks).run(values);
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const auto& of_rank : outputs) {
      parts.push_back(of_rank[i].toTensor());
    }
    const auto& layout = *sharded.graph->return_node()->operand(i)->layout;
    const auto actual = global_value(parts, layout, sharded.mesh->shape());
    const auto& wanted = expected[i].toTensor();
    EXPECT_EQ(actual.sizes(), wanted.sizes()) << run.text;
    EXPECT_TRUE(actual.sizes() == wanted.sizes() && at::allclose(actual, wanted, 1e-4, 1e-5, /*equal_nan=*/true))
        << "output " << i << " differs:\n"
        << run.text;
  }
  return run;
}

} // namespace weft::testing
