#include "tests/integration/samples.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/current_world.h"
#include "weft/comm/run_on_ranks.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

namespace weft {
namespace {

using namespace weft::testing;

/// Outputs and gradients of a call, plain tensors.
struct Outcome {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> gradients;
  bool has_gradients = false;
};

/// Every element counts differently, so that a gradient that lands elsewhere shows.
at::Tensor weights_for(const at::Tensor& output) {
  return at::linspace(-1, 1, output.numel(), at::kFloat).view(output.sizes());
}

bool is_differentiable(const at::Tensor& output) {
  return output.defined() && output.requires_grad();
}

Outcome on_one_device(const Sample& sample) {
  std::vector<at::Tensor> inputs;
  for (const auto& input : sample.inputs) {
    inputs.push_back(input.clone().set_requires_grad(input.is_floating_point()));
  }
  Outcome outcome;
  at::Tensor loss;
  for (const auto& output : sample.call(inputs)) {
    outcome.outputs.push_back(output.detach().clone());
    if (is_differentiable(output)) {
      const auto term = (output * weights_for(output)).sum();
      loss = loss.defined() ? loss + term : term;
    }
  }
  try {
    if (loss.defined()) {
      loss.backward();
      outcome.has_gradients = true;
    }
  } catch (const std::exception&) {
    return outcome; // an operator without a derivative
  }
  for (const auto& input : inputs) {
    outcome.gradients.push_back(input.grad());
  }
  return outcome;
}

Outcome distributed(
    const Sample& sample,
    const DeviceMesh& mesh,
    const std::vector<Layout>& layouts,
    bool with_gradients) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& whole = sample.inputs[i];
    const auto local = local_by_definition(whole, layouts[i], mesh.shape(), mesh.coordinate());
    inputs.push_back(
        from_local(local, mesh, layouts[i], whole.sizes()).detach().set_requires_grad(whole.is_floating_point()));
  }
  Outcome outcome;
  at::Tensor loss;
  for (const auto& output : sample.call(inputs)) {
    outcome.outputs.push_back(full_tensor(output.detach()));
    if (with_gradients && is_differentiable(output)) {
      const auto replicated = Layout(Placements(mesh.ndim(), Replicate()));
      const auto weights = distribute_tensor(weights_for(outcome.outputs.back()), mesh, replicated);
      const auto term = (output * weights).sum();
      loss = loss.defined() ? loss + term : term;
    }
  }
  if (loss.defined()) {
    loss.backward();
  }
  for (const auto& input : inputs) {
    outcome.gradients.push_back(input.grad().defined() ? full_tensor(input.grad()) : at::Tensor());
  }
  return outcome;
}

std::string difference(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (actual[i].defined() != expected[i].defined()) {
      return c10::str("number ", i, " is ", actual[i].defined() ? "there" : "missing");
    }
    if (expected[i].defined() &&
        (actual[i].sizes() != expected[i].sizes() || actual[i].scalar_type() != expected[i].scalar_type() ||
         !at::allclose(actual[i], expected[i], 1e-3, 1e-4, /*equal_nan=*/true))) {
      return c10::str("number ", i, " is\n", actual[i], "\ninstead of\n", expected[i]);
    }
  }
  return {};
}

/// Every combination of layouts for the inputs; a fixed selection where there are very many.
std::vector<std::vector<Layout>> combinations(const Sample& sample, int64_t mesh_ndim) {
  constexpr size_t kMost = 48;
  std::vector<std::vector<Layout>> choices;
  size_t count = 1;
  for (const auto& input : sample.inputs) {
    std::vector<Placement> placements = {Replicate()};
    for (int64_t d = 0; d < input.dim(); ++d) {
      placements.push_back(Shard(d));
    }
    if (input.scalar_type() != at::kBool) { // truth values have no terms
      placements.push_back(Partial());
    }
    if (mesh_ndim == 1 && input.scalar_type() != at::kBool) {
      placements.push_back(Partial(ReduceOp::Avg));
      placements.push_back(Partial(ReduceOp::Max));
    }
    choices.push_back(all_layouts(mesh_ndim, input.dim(), placements));
    count *= choices.back().size();
  }
  // A stride that has no factor in common with the counts walks through all digits.
  const auto stride = count <= kMost ? size_t{1} : count / kMost | size_t{1};
  std::vector<std::vector<Layout>> result;
  for (size_t number = 0; number < count; number += stride) {
    auto rest = number;
    auto& combination = result.emplace_back();
    for (const auto& choice : choices) {
      combination.push_back(choice[rest % choice.size()]);
      rest /= choice.size();
    }
  }
  return result;
}

class RulesOracle : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(RulesOracle, EveryCallEqualsTheSingleDevice) {
  const auto& shape = GetParam();
  const auto size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const auto samples = all_samples();
  std::vector<Outcome> expected;
  for (const auto& sample : samples) {
    expected.push_back(on_one_device(sample));
  }
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::map<std::string, size_t> refused;
  size_t checked = 0;
  run_on_ranks(size, [&](int64_t rank) {
    const auto mesh = init_device_mesh(
        "cpu", shape, shape.size() == 1 ? std::vector<std::string>{"a"} : std::vector<std::string>{"a", "b"});
    for (size_t i = 0; i < samples.size(); ++i) {
      for (const auto& layouts : combinations(samples[i], mesh.ndim())) {
        std::string problem;
        bool was_refused = false;
        try {
          const auto actual = distributed(samples[i], mesh, layouts, expected[i].has_gradients);
          problem = difference(actual.outputs, expected[i].outputs);
          problem = problem.empty() ? problem : "output " + problem;
          if (problem.empty()) {
            problem = difference(actual.gradients, expected[i].gradients);
            problem = problem.empty() ? problem : "gradient " + problem;
          }
        } catch (const std::exception& error) {
          was_refused = true;
          problem = error.what();
        }
        if (rank == 0) {
          ++checked;
          if (was_refused) {
            ++refused[samples[i].name + ": " + problem.substr(0, problem.find('\n'))];
          } else if (!problem.empty()) {
            auto text = samples[i].name;
            for (const auto& layout : layouts) {
              text += " " + layout.to_string();
            }
            wrong.push_back(text + ": " + problem);
          }
        }
      }
    }
  });
  std::cout << samples.size() << " samples, " << checked << " calls, " << wrong.size() << " wrong, " << refused.size()
            << " refused\n";
  EXPECT_GT(checked, samples.size());
  for (const auto& text : wrong) {
    ADD_FAILURE() << text;
  }
  for (const auto& [text, calls] : refused) {
    // Its gradient is built from a plain tensor of zeros, which knows of no mesh.
    const bool is_known = text.starts_with("aten::max.dim") || text.starts_with("aten::min.dim");
    EXPECT_TRUE(is_known) << calls << " calls of " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes,
    RulesOracle,
    ::testing::Values(std::vector<int64_t>{2}, std::vector<int64_t>{3}, std::vector<int64_t>{2, 2}));

} // namespace
} // namespace weft
