#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace layer_norm_test {
using namespace weft::testing;

using Ints = std::vector<int64_t>;

Values with_gradients(const Values& in, const at::Tensor& y) {
  (y * y.cos()).sum().backward();
  Values results = {y};
  for (const auto& each : in) {
    results.push_back(each.grad());
  }
  return results;
}

TEST(LayerNorm, IsThatOfOneDeviceUnderEveryPlacement) {
  expect_as_plain({parameter({2, 3, 5}), parameter({5}), parameter({5})}, [](const Values& in) {
    return with_gradients(in, at::layer_norm(in[0], {5}, in[1], in[2]));
  });
  expect_as_plain({parameter({2, 3, 4}), parameter({3, 4})}, [](const Values& in) {
    return with_gradients(in, at::layer_norm(in[0], {3, 4}, in[1], {}, 1e-3));
  });
  expect_as_plain({parameter({6})}, [](const Values& in) { return with_gradients(in, at::layer_norm(in[0], {6})); });
}

TEST(LayerNorm, OfRmsIsThatOfOneDeviceUnderEveryPlacement) {
  for (const auto eps : {std::optional<double>(), std::optional<double>(1e-2)}) {
    expect_as_plain({parameter({2, 3, 5}), parameter({5})}, [&](const Values& in) {
      return with_gradients(in, at::rms_norm(in[0], {5}, in[1], eps));
    });
    expect_as_plain({parameter({3, 5}), parameter({5})}, [&](const Values& in) -> Values {
      const auto [y, rstd] = at::_fused_rms_norm(in[0], {5}, in[1], eps);
      return {y, rstd};
    });
  }
}

TEST(LayerNorm, OfShardsReducesNumbersPerRow) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto place = [&](const at::Tensor& value, int64_t dim) {
      return distribute_tensor(value.detach(), mesh, {Shard(dim)}).set_requires_grad(true);
    };
    const auto x = place(parameter({2, 3, 8}), 2);
    const auto weight = place(parameter({8}), 0);
    const auto bias = place(parameter({8}), 0);
    const auto gradient = place(parameter({2, 3, 8}), 2).detach();
    const CommLog in_forward(mesh);
    const auto y = at::layer_norm(x, {8}, weight, bias);
    EXPECT_EQ(in_forward.calls(), 2);
    EXPECT_EQ(in_forward.bytes(), 2 * 6 * 8);
    const CommLog in_backward(mesh);
    y.backward(gradient);
    EXPECT_EQ(in_backward.calls(), 1);
    EXPECT_EQ(in_backward.bytes(), 2 * 6 * 8);
    EXPECT_EQ(spec_of(x.grad())->layout(), Layout({Shard(2)}));
    EXPECT_EQ(spec_of(weight.grad())->layout(), Layout({Shard(0)}));
    const CommLog of_rms(mesh);
    const auto z = at::rms_norm(x, {8}, weight);
    EXPECT_EQ(of_rms.calls(), 1);
    z.backward(gradient);
    EXPECT_EQ(of_rms.calls(), 2);
    EXPECT_EQ(of_rms.bytes(), 2 * 6 * 8);
  });
}

TEST(LayerNorm, SixteenBitValuesHaveStatisticsOfMoreBits) {
  const auto global = parameter({4, 64}, at::kFloat).detach() * 20 + 100;
  const auto expected = at::layer_norm(global.to(at::kBFloat16).to(at::kFloat), {64});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto y = at::layer_norm(distribute_tensor(global.to(at::kBFloat16), mesh, {Shard(1)}), {64});
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::allclose(full_tensor(y).to(at::kFloat), expected, 1e-2, 1e-2));
  });
}

TEST(LayerNorm, RefusesOnEveryRankWhatOneDeviceRefuses) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4, 6}), mesh, {Shard(1)});
    const auto weight = distribute_tensor(at::ones({5}), mesh, {Replicate()});
    EXPECT_TRUE(error_text<c10::Error>([&] {
                  at::native_layer_norm(x, {6}, weight, {}, 1e-5);
                }).starts_with("Expected weight to be of same shape as normalized_shape, but got weight of shape [5]"));
  });
}

} // namespace layer_norm_test

} // namespace weft
