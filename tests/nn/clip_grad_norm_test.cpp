#include "weft/nn/clip_grad_norm.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/scopes.h"

#include <torch/nn/utils/clip_grad.h>

#include <limits>

namespace weft {

namespace clip_grad_norm_test {
using namespace weft::testing;
using Parameters = std::vector<at::Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor with_gradient(at::Tensor parameter, const at::Tensor& gradient) {
  parameter.set_requires_grad(true);
  parameter.mutable_grad() = gradient;
  return parameter;
}

std::vector<at::Tensor> global_gradients() {
  return {whole_numbers({5, 4}, at::kDouble), whole_numbers({3}, at::kDouble) / 3, whole_numbers({1, 7}, at::kDouble)};
}

Parameters plain_parameters() {
  Parameters parameters;
  for (const auto& gradient : global_gradients()) {
    parameters.push_back(with_gradient(at::zeros_like(gradient), gradient));
  }
  return parameters;
}

/// Gradients with all kinds of layouts, sharded unevenly.
Parameters parameters_on(const DeviceMesh& mesh) {
  const std::vector<Layout> layouts = {{Shard(1), Shard(0)}, {Replicate(), Shard(0)}, {Replicate(), Replicate()}};
  Parameters parameters;
  for (const auto& gradient : global_gradients()) {
    const auto placed = distribute_tensor(gradient, mesh, layouts[parameters.size()]);
    parameters.push_back(with_gradient(at::zeros_like(placed), placed));
  }
  return parameters;
}

void expect_clipped_as_plain(const DeviceMesh& mesh, double max_norm, double norm_type) {
  const auto expected = plain_parameters();
  const auto expected_norm = nn::clip_grad_norm_(expected, max_norm, norm_type);
  const auto parameters = parameters_on(mesh);
  const CommLog log(mesh);
  const auto norm = nn::clip_grad_norm_(parameters, max_norm, norm_type);
  EXPECT_EQ(log.calls(), 1) << log.to_string();
  EXPECT_NEAR(norm.item<double>(), expected_norm.item<double>(), 1e-9);
  EXPECT_EQ(spec_of(norm)->to_string(), "f64[] @ mesh(a=2,b=2) {R, R}");
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(full_tensor(parameters[i].grad()), expected[i].grad(), 1e-12, 1e-12));
  }
}

TEST(ClipGradNorm, ClipsAsOnOneDeviceWithOneAllReduce) {
  for (const double norm_type : {2.0, 1.0, 3.0, 0.0, kInfinity}) {
    for (const double max_norm : {0.5, 1e6}) {
      SCOPED_TRACE(c10::str(norm_type, " ", max_norm));
      on_mesh({2, 2}, [&](const DeviceMesh& mesh) { expect_clipped_as_plain(mesh, max_norm, norm_type); });
    }
  }
}

TEST(ClipGradNorm, IsThatOfTorchOnPlainTensors) {
  const auto expected = plain_parameters();
  const auto expected_norm = torch::nn::utils::clip_grad_norm_(expected, 0.5);
  const auto parameters = plain_parameters();
  EXPECT_DOUBLE_EQ(nn::clip_grad_norm_(parameters, 0.5).item<double>(), expected_norm);
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(parameters[i].grad(), expected[i].grad()));
  }
}

TEST(ClipGradNorm, TorchsOwnGivesTheSameNumbers) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto expected = parameters_on(mesh);
    const auto expected_norm = torch::nn::utils::clip_grad_norm_(expected, 0.5);
    const auto parameters = parameters_on(mesh);
    EXPECT_NEAR(nn::clip_grad_norm_(parameters, 0.5).item<double>(), expected_norm, 1e-12);
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(at::allclose(full_tensor(parameters[i].grad()), full_tensor(expected[i].grad())));
    }
  });
}

TEST(ClipGradNorm, ParametersWithoutAGradientDoNotCount) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto without = distribute_tensor(at::ones({4}), mesh, {Shard(0)}).set_requires_grad(true);
    EXPECT_EQ(nn::clip_grad_norm_({without}, 1.0).item<double>(), 0);
    const auto with =
        with_gradient(at::ones_like(without).detach(), distribute_tensor(at::ones({4}), mesh, {Shard(0)}));
    EXPECT_FLOAT_EQ(nn::clip_grad_norm_({without, with}, 1.0).item<float>(), 2);
    EXPECT_FALSE(without.grad().defined());
  });
}

TEST(ClipGradNorm, APartialGradientIsTheSumOfItsTerms) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto terms = from_local(at::ones({4}), mesh, {Partial()});
    const auto parameter = with_gradient(distribute_tensor(at::ones({4}), mesh, {Replicate()}), terms);
    EXPECT_FLOAT_EQ(nn::clip_grad_norm_({parameter}, 1.0).item<float>(), 4);
    EXPECT_TRUE(at::allclose(full_tensor(parameter.grad()), at::full({4}, 0.5)));
  });
}

TEST(ClipGradNorm, MeshesMayDiffer) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto line = mesh.submesh({"b"});
    const auto one = distribute_tensor(at::full({4}, 2.0), mesh, {Shard(0), Replicate()});
    const auto other = distribute_tensor(at::full({9}, 1.0), line, {Shard(0)});
    const Parameters parameters = {with_gradient(at::ones_like(one), one), with_gradient(at::ones_like(other), other)};
    EXPECT_FLOAT_EQ(nn::clip_grad_norm_(parameters, 2.5).item<float>(), 5);
    EXPECT_TRUE(at::allclose(full_tensor(one), at::full({4}, 1.0)));
    EXPECT_TRUE(at::allclose(full_tensor(other), at::full({9}, 0.5)));
  });
}

TEST(ClipGradNorm, SharesNothingWithStrictScopes) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto gradient = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const StrictScope strict;
    EXPECT_FLOAT_EQ(nn::clip_grad_norm_({with_gradient(at::ones_like(gradient), gradient)}, 1.0).item<float>(), 2);
  });
}

TEST(ClipGradNorm, PlainGradientsAreAmongDistributedOnes) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto gradient = distribute_tensor(at::full({4}, 2.0), mesh, {Shard(0)});
    const auto plain = at::full({9}, 1.0);
    const auto with_plain = with_gradient(at::ones({9}), plain);
    const auto with_distributed = with_gradient(at::ones_like(gradient), gradient);
    for (const Parameters& parameters : {Parameters{with_plain, with_distributed}, {with_distributed, with_plain}}) {
      plain.fill_(1.0);
      gradient.fill_(2.0);
      const auto norm = nn::clip_grad_norm_(parameters, 2.5);
      EXPECT_EQ(spec_of(norm)->to_string(), "f32[] @ mesh(a=2) {R}");
      EXPECT_FLOAT_EQ(norm.item<float>(), 5);
      EXPECT_TRUE(at::allclose(full_tensor(gradient), at::full({4}, 1.0)));
      EXPECT_TRUE(at::allclose(plain, at::full({9}, 0.5)));
    }
  });
}

TEST(ClipGradNorm, ANormThatIsNotFiniteIsAnErrorWhereAskedFor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto gradient = distribute_tensor(at::tensor({1.0, kInfinity}), mesh, {Shard(0)});
    const Parameters parameters = {with_gradient(at::ones_like(gradient), gradient)};
    expect_contains(
        error_text([&] { nn::clip_grad_norm_(parameters, 1.0, 2, /*error_if_nonfinite=*/true); }),
        "[clip_grad_norm_] the norm of order 2 must be finite, but got inf.");
    EXPECT_EQ(nn::clip_grad_norm_(parameters, 1.0).item<double>(), kInfinity);
  });
}

} // namespace clip_grad_norm_test

} // namespace weft
