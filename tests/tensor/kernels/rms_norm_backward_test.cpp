#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/kernels/kernels.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace rms_norm_backward_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

TEST(RmsNormBackward, GradientsEqualTheSingleDevice) {
  expect_as_plain({parameter({3, 4, 6}), parameter({6})}, [](const Values& in) -> Values {
    const auto normalized = at::rms_norm(in[0], {6}, in[1], 1e-5);
    normalized.pow(3).sum().backward();
    return {normalized, in[0].grad(), in[1].grad()};
  });
}

TEST(RmsNormBackward, SeveralDimsMayBeNormalized) {
  expect_as_plain({parameter({5, 4, 3}), parameter({4, 3})}, [](const Values& in) -> Values {
    at::rms_norm(in[0], {4, 3}, in[1], 1e-5).pow(3).sum().backward();
    return {in[0].grad(), in[1].grad()};
  });
  expect_as_plain({parameter({4, 3}), parameter({4, 3})}, [](const Values& in) -> Values {
    at::rms_norm(in[0], {4, 3}, in[1], 1e-5).pow(3).sum().backward();
    return {in[0].grad(), in[1].grad()};
  });
}

TEST(RmsNormBackward, ThereMayBeNoWeightAndNoEps) {
  expect_as_plain({parameter({5, 6})}, [](const Values& in) -> Values {
    at::rms_norm(in[0], {6}).pow(3).sum().backward();
    return {in[0].grad()};
  });
}

TEST(RmsNormBackward, OneGradientMayBeWantedAlone) {
  expect_as_plain({parameter({5, 6}).detach(), parameter({6})}, [](const Values& in) -> Values {
    at::rms_norm(in[0], {6}, in[1], 1e-5).pow(3).sum().backward();
    return {in[1].grad()};
  });
  expect_as_plain({parameter({5, 6}), parameter({6}).detach()}, [](const Values& in) -> Values {
    at::rms_norm(in[0], {6}, in[1], 1e-5).pow(3).sum().backward();
    return {in[0].grad()};
  });
}

TEST(RmsNormBackward, TheGradientHasAGradient) {
  expect_as_plain({parameter({5, 6}), parameter({6})}, [](const Values& in) -> Values {
    const auto loss = at::rms_norm(in[0], {6}, in[1], 1e-5).pow(3).sum();
    const auto first = torch::autograd::grad({loss}, {in[0]}, {}, true, /*create_graph=*/true)[0];
    first.pow(2).sum().backward();
    return {first, in[0].grad(), in[1].grad()};
  });
}

TEST(RmsNormBackward, TheNormIsOneOperatorAndItsRowsStaySharded) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto weight = distribute_tensor(at::ones({6}), mesh, {Replicate()}).set_requires_grad(true);
    const ExplainLog log;
    const auto y = at::rms_norm(x, {6}, weight, 1e-5);
    EXPECT_EQ(log.calls().at(0)->op, "aten::_fused_rms_norm") << log.to_string();
    EXPECT_EQ(spec_of(y)->layout(), Layout{Shard(0)});
    y.sum().backward();
    EXPECT_EQ(spec_of(x.grad())->layout(), Layout{Shard(0)});
    for (const auto& call : log.calls()) {
      EXPECT_EQ(call->bytes, 0) << call->to_string();
    }
  });
}

} // namespace rms_norm_backward_test

} // namespace weft
