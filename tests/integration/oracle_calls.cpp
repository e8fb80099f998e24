#include "tests/integration/oracle_calls.h"

#include "tests/support/layout_cases.h"
#include "weft/tensor/distribute.h"

#include <numeric>

namespace weft::testing {

namespace {

/// Every element counts differently, so that a gradient that lands elsewhere shows.
at::Tensor weights_for(const at::Tensor& output) {
  return at::linspace(-1, 1, output.numel(), at::kFloat).view(output.sizes());
}

bool is_differentiable(const at::Tensor& output) {
  return output.defined() && output.requires_grad();
}

CallResult on_one_device(const Sample& sample, bool with_gradients) {
  std::vector<at::Tensor> inputs;
  for (const auto& input : sample.inputs) {
    inputs.push_back(input.clone().set_requires_grad(with_gradients && input.is_floating_point()));
  }
  CallResult result;
  result.has_gradients = with_gradients;
  at::Tensor loss;
  for (const auto& output : sample.call(inputs)) {
    result.outputs.push_back(output.defined() ? output.detach().clone() : output);
    if (is_differentiable(output)) {
      const auto term = (output * weights_for(output)).sum();
      loss = loss.defined() ? loss + term : term;
    }
  }
  if (loss.defined()) {
    loss.backward();
  }
  for (const auto& input : inputs) {
    result.gradients.push_back(input.grad());
  }
  return result;
}

std::string first_difference(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  if (actual.size() != expected.size()) {
    return c10::str("count is ", actual.size(), " instead of ", expected.size());
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (actual[i].defined() != expected[i].defined()) {
      return c10::str("number ", i, " is ", actual[i].defined() ? "there" : "missing");
    }
    if (expected[i].defined() && !is_same(actual[i], expected[i])) {
      return c10::str("number ", i, " is\n", actual[i], "\ninstead of\n", expected[i]);
    }
  }
  return {};
}

} // namespace

CallResult on_one_device(const Sample& sample) {
  try {
    return on_one_device(sample, /*with_gradients=*/true);
  } catch (const std::exception&) {
    return on_one_device(sample, /*with_gradients=*/false); // an operator without a derivative
  }
}

CallResult distributed(
    const Sample& sample,
    const DeviceMesh& mesh,
    const std::vector<Layout>& layouts,
    bool with_gradients) {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& global = sample.inputs[i];
    const auto local = local_by_definition(global, layouts[i], mesh.shape(), mesh.coordinate()).clone();
    inputs.push_back(from_local(local, mesh, layouts[i], global.sizes())
                         .detach()
                         .set_requires_grad(with_gradients && global.is_floating_point()));
  }
  CallResult result;
  at::Tensor loss;
  for (const auto& output : sample.call(inputs)) {
    if (!output.defined()) {
      result.outputs.push_back(output);
      continue;
    }
    result.outputs.push_back(full_tensor(output.detach()));
    if (is_differentiable(output)) {
      const auto replicated = Layout(Placements(mesh.ndim(), Replicate()));
      const auto weights = distribute_tensor(weights_for(result.outputs.back()), mesh, replicated);
      const auto term = (output * weights).sum();
      loss = loss.defined() ? loss + term : term;
    }
  }
  if (loss.defined()) {
    loss.backward();
  }
  for (const auto& input : inputs) {
    result.gradients.push_back(input.grad().defined() ? full_tensor(input.grad()) : at::Tensor());
  }
  return result;
}

std::string difference(const CallResult& actual, const CallResult& expected) {
  auto text = first_difference(actual.outputs, expected.outputs);
  if (!text.empty()) {
    return "output " + text;
  }
  text = first_difference(actual.gradients, expected.gradients);
  return text.empty() ? text : "gradient " + text;
}

bool is_same(const at::Tensor& actual, const at::Tensor& expected) {
  return actual.sizes() == expected.sizes() && actual.scalar_type() == expected.scalar_type() &&
      at::allclose(actual, expected, 1e-3, 1e-4, /*equal_nan=*/true);
}

std::vector<Placement> input_placements(const at::Tensor& input, c10::ArrayRef<ReduceOp> partial_ops) {
  std::vector<Placement> placements = {Replicate()};
  for (int64_t d = 0; d < input.dim(); ++d) {
    placements.push_back(Shard(d));
  }
  for (const auto op : partial_ops) {
    const bool has_terms = op == ReduceOp::Avg ? input.is_floating_point() : input.scalar_type() != at::kBool;
    if (has_terms) {
      placements.push_back(Partial(op));
    }
  }
  return placements;
}

std::vector<std::vector<Layout>> combinations(
    const Sample& sample,
    int64_t mesh_ndim,
    c10::ArrayRef<ReduceOp> partial_ops,
    size_t most) {
  std::vector<std::vector<Layout>> choices;
  size_t count = 1;
  for (const auto& input : sample.inputs) {
    choices.push_back(all_layouts(mesh_ndim, input.dim(), input_placements(input, partial_ops)));
    count *= choices.back().size();
  }
  // A stride without a factor in common with the count visits no number twice and leaves out no layout of any input.
  size_t stride = 1;
  if (count > most) {
    stride = count * 5 / 8 | 1U;
    while (std::gcd(stride, count) != 1) {
      stride += 2;
    }
  }
  std::vector<std::vector<Layout>> result;
  for (size_t k = 0; k < std::min(count, most); ++k) {
    auto rest = k * stride % count;
    auto& combination = result.emplace_back();
    for (const auto& choice : choices) {
      combination.push_back(choice[rest % choice.size()]);
      rest /= choice.size();
    }
  }
  return result;
}

std::string to_string(const std::vector<Layout>& layouts) {
  std::string text;
  for (const auto& layout : layouts) {
    text += (text.empty() ? "" : " ") + layout.to_string();
  }
  return text;
}

} // namespace weft::testing
