#include "weft/tensor/random/random_fill.h"

#include "tests/support/error_text.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/world/fake_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace random_fill_test {
using testing::all_layouts;
using testing::error_text;
using testing::local_by_definition;

constexpr RandomCall kCall{5, 2};

SpecPtr spec_of_rank(
    int64_t rank,
    c10::IntArrayRef mesh_shape,
    const Layout& layout,
    c10::IntArrayRef sizes,
    at::ScalarType dtype = at::kFloat) {
  const auto ranks = c10::multiply_integers(mesh_shape);
  return TensorSpec::make(DeviceMesh(make_fake_world(ranks, rank), c10::kCPU, mesh_shape), layout, sizes, dtype);
}

at::Tensor global_of(const Distribution& distribution, c10::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  auto result = at::empty(sizes, dtype);
  fill_random(result, *spec_of_rank(0, {1}, {Replicate()}, sizes, dtype), distribution, kCall);
  return result;
}

const std::vector<Distribution>& all_distributions() {
  static const std::vector<Distribution> all = {Distribution::uniform(-1, 2),   Distribution::normal(1, 2),
                                                Distribution::log_normal(0, 1), Distribution::exponential(2),
                                                Distribution::cauchy(0, 1),     Distribution::geometric(0.2),
                                                Distribution::bernoulli(0.4),   Distribution::integers(-5, 11)};
  return all;
}

/// In every layout of R, S and SS the local tensors hold the numbers that a single rank gets for the global tensor.
void expect_locals_of_one_global(c10::IntArrayRef sizes, c10::IntArrayRef mesh_shape) {
  const auto ndim = static_cast<int64_t>(sizes.size());
  std::vector<Placement> placements = {Replicate()};
  for (int64_t d = 0; d < ndim; ++d) {
    placements.push_back(Shard(d));
    placements.push_back(StridedShard(d, 3));
  }
  const auto layouts = all_layouts(static_cast<int64_t>(mesh_shape.size()), ndim, placements);
  for (const auto& distribution : all_distributions()) {
    const auto global = global_of(distribution, sizes);
    for (const auto& layout : layouts) {
      for (int64_t r = 0; r < c10::multiply_integers(mesh_shape); ++r) {
        const auto expected = local_by_definition(global, layout, mesh_shape, coordinate_at(r, mesh_shape));
        const auto local = at::full_like(expected, -100);
        fill_random(local, *spec_of_rank(r, mesh_shape, layout, sizes), distribution, kCall);
        EXPECT_TRUE(at::equal(local, expected))
            << static_cast<int>(distribution.kind) << " " << layout << ", rank " << r;
      }
    }
  }
}

TEST(FillRandom, GivesEveryRankItsLocalTensorOfTheSameNumbers) {
  expect_locals_of_one_global({12, 10}, {2});
  expect_locals_of_one_global({7, 11}, {3});
  expect_locals_of_one_global({5, 3}, {4});
  expect_locals_of_one_global({9, 13}, {2, 2});
  expect_locals_of_one_global({3, 4, 70}, {2});
}

TEST(FillRandom, WritesToATensorThatIsNotContiguous) {
  const auto spec = spec_of_rank(1, {2}, {Shard(1)}, {6, 8});
  const auto expected = at::empty({6, 4});
  fill_random(expected, *spec, Distribution::normal(0, 1), kCall);
  const auto transposed = at::zeros({4, 6}).t();
  fill_random(transposed, *spec, Distribution::normal(0, 1), kCall);
  EXPECT_TRUE(at::equal(transposed, expected));
  const auto storage = at::zeros({6, 9});
  fill_random(storage.slice(1, 0, 8, 2), *spec, Distribution::normal(0, 1), kCall);
  EXPECT_TRUE(at::equal(storage.slice(1, 0, 8, 2), expected));
  EXPECT_EQ(storage.slice(1, 1, 9, 2).abs().sum().item<float>(), 0) << "what is between stays";
}

TEST(FillRandom, LowPrecisionIsTheRoundedFloat) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    EXPECT_TRUE(at::equal(
        global_of(Distribution::normal(0, 1), {100}, dtype), global_of(Distribution::normal(0, 1), {100}).to(dtype)));
  }
}

TEST(FillRandom, ARankOutsideTheMeshHasNothingToFill) {
  const DeviceMesh mesh(make_fake_world(4, 3), c10::kCPU, {2});
  const auto local = at::empty({0, 0});
  EXPECT_NO_THROW(
      fill_random(local, *TensorSpec::make(mesh, {Shard(0)}, {4, 4}, at::kFloat), Distribution::normal(0, 1), kCall));
}

TEST(FillRandom, RaisesForWhatIsPartial) {
  const auto spec = spec_of_rank(0, {2}, {Partial()}, {4});
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { fill_random(at::empty({4}), *spec, Distribution::normal(0, 1), kCall); }),
      "[random] a tensor of placements R and S is required, but got f32[4] @ mesh(d0=2) {P(sum)}. Numbers cannot be "
      "written to a partial value; redistribute it first.");
}

TEST(FillRandom, RaisesForADtypeThatADistributionDoesNotHave) {
  const auto spec = spec_of_rank(0, {2}, {Replicate()}, {4}, at::kLong);
  EXPECT_EQ(
      error_text<c10::NotImplementedError>(
          [&] { fill_random(at::empty({4}, at::kLong), *spec, Distribution::normal(0, 1), kCall); }),
      "[random] numbers of this distribution cannot be of dtype i64. Use f32, f64, f16 or bf16, or cast the result.");
}

TEST(FillBernoulli, FollowsTheProbabilityAtEachPlace) {
  const auto spec = spec_of_rank(0, {1}, {Replicate()}, {4, 10'000});
  const auto p = at::tensor({0.0, 0.2, 0.7, 1.0}).unsqueeze(1).expand({4, 10'000});
  const auto values = at::empty({4, 10'000});
  fill_bernoulli(values, p, *spec, kCall);
  const auto means = values.mean(1);
  EXPECT_EQ(means[0].item<float>(), 0);
  EXPECT_NEAR(means[1].item<float>(), 0.2, 4 * std::sqrt(0.2 * 0.8 / 10'000));
  EXPECT_NEAR(means[2].item<float>(), 0.7, 4 * std::sqrt(0.7 * 0.3 / 10'000));
  EXPECT_EQ(means[3].item<float>(), 1);
}

TEST(FillBernoulli, OfOneProbabilityIsThatOfTheNumber) {
  const auto spec = spec_of_rank(0, {1}, {Replicate()}, {1000});
  const auto values = at::empty({1000});
  fill_bernoulli(values, at::full({1000}, 0.3, at::kDouble), *spec, kCall);
  EXPECT_TRUE(at::equal(values, global_of(Distribution::bernoulli(0.3), {1000})));
}

#ifdef WEFT_TEST_CUDA
/// The same numbers on the device: in one range, in rows, in runs.
TEST(FillRandom, OnCudaGivesTheNumbersOfTheCpu) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kBool}) {
    for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}, Layout{StridedShard(1, 3)}}) {
      const auto spec = spec_of_rank(1, {2}, layout, {37, 413}, dtype);
      for (const auto& distribution : all_distributions()) {
        using Kind = Distribution::Kind;
        const bool is_exact = distribution.kind == Kind::Uniform || distribution.kind == Kind::Bernoulli ||
            distribution.kind == Kind::Integers;
        if (at::isIntegralType(dtype, true) && distribution.kind != Kind::Bernoulli) {
          continue;
        }
        const auto shape = spec->local_shape_and_offset().shape;
        const auto on_cpu = at::empty(shape, dtype);
        const auto on_cuda = at::empty(shape, at::TensorOptions(dtype).device(at::kCUDA));
        fill_random(on_cpu, *spec, distribution, kCall);
        fill_random(on_cuda, *spec, distribution, kCall);
        if (is_exact) {
          EXPECT_TRUE(at::equal(on_cuda.cpu(), on_cpu)) << static_cast<int>(distribution.kind) << " " << *spec;
        } else {
          const auto epsilon = dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-5 : 1e-2;
          EXPECT_TRUE(at::allclose(on_cuda.cpu(), on_cpu, epsilon, epsilon))
              << static_cast<int>(distribution.kind) << " " << *spec;
        }
      }
    }
  }
}
#endif

} // namespace random_fill_test

} // namespace weft
