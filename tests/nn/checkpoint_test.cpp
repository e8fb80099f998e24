#include "weft/nn/checkpoint.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

namespace weft::nn {

namespace checkpoint_test {
using namespace weft::testing;

/// A layer with a dropout in it.
at::Tensor layer(const at::Tensor& x, const at::Tensor& weight) {
  return at::dropout(at::gelu(at::linear(x, weight)), 0.5, /*train=*/true);
}

struct Gradients {
  at::Tensor weight;
  at::Tensor input;
  at::Tensor random_afterwards;
};

Gradients gradients(const at::Tensor& input, const at::Tensor& matrix, bool checkpointed) {
  const auto weight = matrix.detach().clone().set_requires_grad(true);
  const auto x = input.detach().clone().set_requires_grad(true);
  for (int i = 0; i < 2; ++i) {
    const auto inside = [&](const at::Tensor& tensor) { return layer(tensor, weight); };
    const auto y = checkpointed ? checkpoint(inside, x * 1) : inside(x * 1);
    (y * y).sum().backward();
  }
  return {weight.grad(), x.grad(), at::dropout(x.detach(), 0.5, true)};
}

void expect_same(const Gradients& computed, const Gradients& expected) {
  EXPECT_TRUE(at::allclose(computed.weight, expected.weight));
  EXPECT_TRUE(at::allclose(computed.input, expected.input));
  expect_equal(computed.random_afterwards, expected.random_afterwards);
}

Gradients gathered(const Gradients& distributed) {
  return {full_tensor(distributed.weight), full_tensor(distributed.input), full_tensor(distributed.random_afterwards)};
}

TEST(Checkpoint, GradientsAreThoseWithoutItOnAMesh) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 8}) * 0.1, mesh, {Shard(0), Replicate()});
    const auto weight = distribute_tensor(whole_numbers({6, 8}) * 0.1, mesh, {Replicate(), Shard(0)});
    manual_seed(3);
    const auto expected = gradients(x, weight, false);
    manual_seed(3);
    const auto computed = gradients(x, weight, true);
    expect_same(gathered(computed), gathered(expected));
  });
}

TEST(Checkpoint, GradientsAreThoseWithoutItOnOneDevice) {
  const auto x = whole_numbers({4, 8}) * 0.1;
  const auto weight = whole_numbers({6, 8}) * 0.1;
  at::manual_seed(3);
  const auto expected = gradients(x, weight, false);
  at::manual_seed(3);
  expect_same(gradients(x, weight, true), expected);
}

TEST(Checkpoint, TheFunctionIsCalledOncePerDirectionAndKeepsNoGraph) {
  int calls = 0;
  const auto x = at::ones({2}).set_requires_grad(true);
  const auto y = checkpoint(
      [&](const at::Tensor& tensor) {
        ++calls;
        EXPECT_EQ(at::GradMode::is_enabled(), calls == 2);
        return tensor * tensor;
      },
      x);
  EXPECT_EQ(calls, 1);
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  expect_equal(x.grad(), at::full({2}, 2.0));
}

TEST(Checkpoint, TheSecondCallHasTheAutocastOfTheFirst) {
  std::vector<at::ScalarType> dtypes;
  const auto weight = at::ones({2, 2}).set_requires_grad(true);
  const auto x = at::ones({2, 2}).set_requires_grad(true);
  const auto inside = [&](const at::Tensor& tensor) {
    auto result = at::linear(tensor, weight);
    dtypes.push_back(result.scalar_type());
    return result;
  };
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto y = checkpoint(inside, x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  y.sum().backward();
  EXPECT_EQ(dtypes, std::vector<at::ScalarType>(2, at::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(weight.grad().defined());
}

} // namespace checkpoint_test

} // namespace weft::nn
