#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace reduction_backward_test {
using namespace weft::testing;

using Ints = std::vector<int64_t>;

/// Functions of x that scale it by a reduction of it over the last dim, each with the all-reduces of one number per row that its
/// forward and backward need.
struct Case {
  const char* name;
  std::function<at::Tensor(const at::Tensor& x)> scaled;
  int64_t forward;
  int64_t backward;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"mean", [](const at::Tensor& x) { return x * (x.pow(2).mean(Ints{-1}, true) + 0.1).rsqrt(); }, 1, 1},
      {"sum", [](const at::Tensor& x) { return x * (x.abs().sum(Ints{-1}, true) + 1).reciprocal(); }, 1, 1},
      {"var_mean",
       [](const at::Tensor& x) {
         const auto [variance, mean] = at::var_mean(x, Ints{-1}, at::Scalar(0), true);
         return x / (mean.square() + variance + 1);
       },
       2, 3}, // autograd computes the mean again
      {"std_mean",
       [](const at::Tensor& x) {
         const auto [deviation, mean] = at::std_mean(x, Ints{-1}, at::Scalar(1), true);
         return x / (mean.square() + deviation + 1);
       },
       2, 3}, // autograd computes the mean again
  };
  return all;
}

TEST(ReductionBackward, AGradientOfShardsReducesNumbersPerRow) {
  for (const auto& each : cases()) {
    SCOPED_TRACE(each.name);
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const auto x = distribute_tensor(parameter({2, 3, 8}).detach(), mesh, {Shard(2)}).set_requires_grad(true);
      const CommLog in_forward(mesh);
      const auto y = each.scaled(x);
      EXPECT_EQ(in_forward.calls(), each.forward);
      const auto gradient = distribute_tensor(parameter({2, 3, 8}).detach().square(), mesh, {Shard(2)});
      const CommLog in_backward(mesh);
      y.backward(gradient);
      EXPECT_EQ(in_backward.calls(), each.backward);
      EXPECT_EQ(in_backward.bytes(), each.backward * 6 * 8);
      EXPECT_EQ(spec_of(x.grad())->layout(), Layout({Shard(2)}));
    });
  }
}

TEST(ReductionBackward, IsThatOfOneDevice) {
  for (const auto& each : cases()) {
    SCOPED_TRACE(each.name);
    expect_as_plain({parameter({3, 5})}, [&](const Values& in) -> Values {
      const auto y = each.scaled(in[0]);
      (y.square().sum() * y.mean()).backward();
      return {y, in[0].grad()};
    });
  }
}

TEST(ReductionBackward, OfReplicatedValuesStaysPartialWithTheGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto w = distribute_tensor(parameter({4, 8}).detach(), mesh, {Replicate()}).set_requires_grad(true);
    const auto x = distribute_tensor(parameter({6, 8}).detach(), mesh, {Shard(0)});
    const auto centered = w - w.mean(Ints{-1}, true);
    const auto y = x.matmul(centered.t());
    const CommLog log(mesh);
    y.backward(at::ones_like(y));
    EXPECT_EQ(log.calls(), 1); // of the gradient
  });
}

} // namespace reduction_backward_test

} // namespace weft
