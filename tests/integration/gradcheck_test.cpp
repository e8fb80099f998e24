#include "weft/weft.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace gradcheck_test {
/// How a two-layer block is spread over a mesh.
struct Spread {
  std::vector<int64_t> mesh_shape;
  Layout input;  // of the batch, which comes in as local tensors
  Layout up;     // of the parameters
  Layout hidden; // what the hidden features are redistributed to
  Layout down;
  Layout output; // what the result is redistributed to
};

const std::vector<Spread> kSpreads = {
    {{2}, {Shard(0)}, {Replicate()}, {Shard(0)}, {Replicate()}, {Shard(0)}},
    {{2}, {Replicate()}, {Shard(0)}, {Shard(1)}, {Shard(1)}, {Replicate()}},
    {{2}, {Partial()}, {Shard(0)}, {Shard(0)}, {Shard(0)}, {Shard(1)}},
    {{2}, {Partial(ReduceOp::Avg)}, {Shard(1)}, {Replicate()}, {Shard(1)}, {Shard(0)}},
    {{3}, {Shard(1)}, {Shard(1)}, {Shard(1)}, {Shard(1)}, {Shard(0)}},
    {{2, 2},
     {Shard(0), Replicate()},
     {Replicate(), Shard(0)},
     {Shard(0), Shard(1)},
     {Replicate(), Shard(1)},
     {Shard(0), Replicate()}},
    {{2, 2},
     {Shard(0), Shard(1)},
     {Shard(0), Shard(1)},
     {Shard(1), Shard(1)},
     {Shard(1), Shard(0)},
     {Shard(1), Shard(0)}},
};

constexpr int64_t kRows = 5;
constexpr int64_t kInputs = 4;
constexpr int64_t kHidden = 6;
constexpr int64_t kOutputs = 3;

struct GlobalTensors {
  at::Tensor input; // where the input is partial, what its terms are multiples of
  at::Tensor up;
  at::Tensor down;
};

at::Tensor numbers(c10::IntArrayRef sizes, double phase) {
  return at::arange(c10::multiply_integers(sizes), at::kDouble).mul_(1.7).add_(phase).sin_().view(sizes);
}

GlobalTensors globals() {
  return {numbers({kRows, kInputs}, 0.1), numbers({kHidden, kInputs}, 0.2), numbers({kOutputs, kHidden}, 0.3)};
}

bool is_partial(const Spread& spread) {
  return spread.input.has_partial();
}

/// The local input: a shard of the global one, or a term of it.
at::Tensor local_input(const GlobalTensors& global, const Spread& spread, const DeviceMesh& mesh) {
  if (is_partial(spread)) {
    return global.input * static_cast<double>(mesh.rank(0) + 1);
  }
  const auto block = local_shape_and_offset(global.input.sizes(), mesh, spread.input);
  auto shard = global.input;
  for (int64_t d = 0; d < shard.dim(); ++d) {
    shard = shard.narrow(d, block.offset[d], block.shape[d]);
  }
  return shard.clone();
}

struct Block {
  at::Tensor local_input;
  at::Tensor up;
  at::Tensor down;
  at::Tensor loss;
};

/// How the block ends. With full_tensor every rank has the global loss. With to_local it has the loss of its shard, the same
/// on ranks that hold replicas; or these divide it among them, and declare their gradients as terms.
enum class End : uint8_t { FullTensor, ToLocal, ToLocalInTerms };

/// The layout with another placement on the mesh dims where it replicates.
Layout with_replicas_as(const Layout& layout, Placement placement) {
  Placements placements(layout.placements().begin(), layout.placements().end());
  for (auto& p : placements) {
    p = p.is_replicate() ? placement : p;
  }
  return Layout(placements);
}

double replicas(const Layout& layout, const DeviceMesh& mesh) {
  int64_t count = 1;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    count *= layout[m].is_replicate() ? mesh.size(m) : 1;
  }
  return static_cast<double>(count);
}

/// The block on a rank, through all boundary functions, with the loss that this rank sees.
Block run_block(const GlobalTensors& global, const Spread& spread, const DeviceMesh& mesh, End end) {
  Block block;
  block.local_input = local_input(global, spread, mesh).set_requires_grad(true);
  block.up = distribute_tensor(global.up.clone().set_requires_grad(true), mesh, spread.up);
  block.down = distribute_tensor(global.down.clone().set_requires_grad(true), mesh, spread.down);
  const auto input = from_local(block.local_input, mesh, spread.input, global.input.sizes());
  const auto hidden = redistribute(at::linear(input, block.up).tanh(), spread.hidden);
  const auto output = redistribute(at::linear(hidden, block.down), spread.output);
  const auto weights = numbers({kRows, kOutputs}, 0.7);
  if (end == End::FullTensor) {
    block.loss = (full_tensor(output).sin() * weights).sum();
    return block;
  }
  const auto local_weights = to_local(distribute_tensor(weights, mesh, spread.output));
  const auto part = end == End::ToLocal
      ? to_local(output)
      : to_local(output, {.grad_placements = with_replicas_as(spread.output, Partial())});
  block.loss = (part.sin() * local_weights).sum();
  if (end == End::ToLocalInTerms) {
    block.loss = block.loss / replicas(spread.output, mesh);
  }
  return block;
}

/// The loss of all ranks together.
double total_loss(const GlobalTensors& global, const Spread& spread, const DeviceMesh& mesh, End end) {
  const auto loss = run_block(global, spread, mesh, end).loss.detach();
  Placements placements;
  for (const auto& placement : spread.output.placements()) {
    const bool is_alike = end == End::FullTensor || (end == End::ToLocal && placement.is_replicate());
    placements.push_back(is_alike ? Replicate() : Partial());
  }
  return full_tensor(from_local(loss, mesh, Layout(placements))).item<double>();
}

at::Tensor numerical_gradient(at::Tensor GlobalTensors::*which, const Spread& spread, const DeviceMesh& mesh, End end) {
  constexpr double kStep = 1e-5;
  auto gradient = at::zeros_like(globals().*which);
  for (int64_t i = 0; i < gradient.numel(); ++i) {
    auto above = globals();
    auto below = globals();
    (above.*which).view(-1)[i] += kStep;
    (below.*which).view(-1)[i] -= kStep;
    gradient.view(-1)[i] = (total_loss(above, spread, mesh, end) - total_loss(below, spread, mesh, end)) / (2 * kStep);
  }
  return gradient;
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, const char* what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(at::allclose(actual, expected, 1e-6, 1e-8)) << what << "\n" << actual << "\ninstead of\n" << expected;
}

void check_gradients(const Spread& spread, End end) {
  run_on_ranks(c10::multiply_integers(spread.mesh_shape), [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", spread.mesh_shape);
    const auto block = run_block(globals(), spread, mesh, end);
    block.loss.backward();
    expect_close(
        full_tensor(block.up.grad()), numerical_gradient(&GlobalTensors::up, spread, mesh, end), "first layer");
    expect_close(
        full_tensor(block.down.grad()), numerical_gradient(&GlobalTensors::down, spread, mesh, end), "second layer");
    // A change of the global input changes the local one: the terms of a partial one by the factors they were made with.
    auto gradient = block.local_input.grad();
    if (is_partial(spread)) {
      gradient = full_tensor(from_local(gradient * static_cast<double>(mesh.rank(0) + 1), mesh, {Partial()}));
    } else {
      gradient = full_tensor(from_local(gradient, mesh, spread.input, c10::IntArrayRef({kRows, kInputs})));
    }
    expect_close(gradient, numerical_gradient(&GlobalTensors::input, spread, mesh, end), "input");
  });
}

void check_all_spreads(End end) {
  for (const auto& spread : kSpreads) {
    SCOPED_TRACE(c10::str(spread.input, " ", spread.up, " ", spread.hidden, " ", spread.down, " ", spread.output));
    check_gradients(spread, end);
  }
}

TEST(Gradcheck, GradientsThroughABlockThatEndsInFullTensorAreItsDifferences) {
  check_all_spreads(End::FullTensor);
}

TEST(Gradcheck, GradientsThroughABlockThatEndsInToLocalAreItsDifferences) {
  check_all_spreads(End::ToLocal);
}

TEST(Gradcheck, GradientsThroughABlockThatEndsInToLocalWithTermsOfTheGradientAreItsDifferences) {
  check_all_spreads(End::ToLocalInTerms);
}

} // namespace gradcheck_test

} // namespace weft
