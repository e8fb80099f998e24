#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace moments_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;
using OptionalDims = at::OptionalIntArrayRef;
using Ints = std::vector<int64_t>;

/// Uneven shards on two and three ranks, and on (2, 2) some without elements.
at::Tensor sample() {
  return at::arange(15, at::kDouble).mul(2.4).sin().mul(1000).round().view({5, 3});
}

void expect_moments(const std::function<Values(const at::Tensor&)>& moments) {
  // Integers, because part_of gives partial terms that add up exactly only for them.
  const auto global = sample();
  const auto expected = moments(global / 1000);
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto x = from_local(part_of(global, mesh, layout), mesh, layout, global.sizes()) / 1000;
    const auto actual = moments(x);
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto value = full_tensor(actual[i]);
      EXPECT_EQ(value.sizes(), expected[i].sizes());
      EXPECT_TRUE(at::allclose(value, expected[i], 1e-12, 1e-12)) << layout << "\n"
                                                                  << value << "\nnot\n"
                                                                  << expected[i];
    }
  });
}

TEST(Moments, OfUnevenShardsAreThoseOfTheGlobalTensor) {
  for (const Ints& dims : {Ints{0}, Ints{1}, Ints{-2}, Ints{0, 1}, Ints{}}) {
    for (const bool keepdim : {false, true}) {
      expect_moments([&](const at::Tensor& x) -> Values {
        const auto [variance, variance_mean] = at::var_mean(x, OptionalDims(dims), 1, keepdim);
        const auto [deviation, deviation_mean] = at::std_mean(x, OptionalDims(dims), 0, keepdim);
        return {
            at::mean(x, dims, keepdim),
            at::var(x, OptionalDims(dims), 1, keepdim),
            at::var(x, OptionalDims(dims), 0, keepdim),
            at::std(x, OptionalDims(dims), 2, keepdim),
            variance,
            variance_mean,
            deviation,
            deviation_mean};
      });
    }
  }
  expect_moments([](const at::Tensor& x) -> Values { return {x.mean(), x.var(), x.std()}; });
}

TEST(Moments, GradientsEqualTheSingleDevice) {
  expect_as_plain({parameter({5, 3})}, [](const Values& in) -> Values {
    const auto& x = in[0];
    (x.mean().pow(2) + x.mean(0).pow(3).sum() + x.var(0).pow(2).sum() + x.std().pow(2) + x.std(1).sum()).backward();
    return {x.grad()};
  });
}

TEST(Moments, TheVarianceOfLargeNumbersDoesNotCancel) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = at::tensor({1e6F, 1e6F + 1, 1e6F + 2, 1e6F + 3, 1e6F + 4});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_NEAR(full_tensor(x.var()).item<double>(), 2.5, 0.02);
  });
}

TEST(Moments, OneNumberIsMovedAndNotTheTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({64, 64}), mesh, {Shard(0)});
    const CommLog log(mesh);
    full_tensor(x.mean());
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    EXPECT_LE(log.bytes(), 64);
    full_tensor(x.var());
    EXPECT_LE(log.bytes(), 256) << log.to_string();
  });
}

TEST(Moments, TheMeanOfHalvesDoesNotOverflowBetweenRanks) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = at::full({8}, 30000, at::kHalf);
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_EQ(full_tensor(x.mean()).item<double>(), global.mean().item<double>());
  });
}

TEST(Moments, TheVarianceOfHalvesDoesNotOverflowBetweenRanks) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = at::tensor({100, -100}).repeat({8}).to(at::kHalf);
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_EQ(full_tensor(x.var()).item<double>(), global.var().item<double>());
  });
}

TEST(Moments, AMeanMayBeTakenInAnotherDtype) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5}, at::kLong);
    const auto mean = distribute_tensor(global, mesh, {Shard(0)}).mean(at::kDouble);
    EXPECT_EQ(mean.scalar_type(), at::kDouble);
    expect_equal(full_tensor(mean), global.mean(at::kDouble));
  });
}

TEST(Moments, IntegersHaveNoMeanWhateverTheLayout) {
  const auto error =
      error_as_plain({whole_numbers({4}, at::kLong)}, [](const Values& in) -> Values { return {in[0].mean()}; });
  expect_contains(error, "could not infer output dtype");
}

TEST(Moments, OfNothingAreNotANumber) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::empty({0, 3}), mesh, {Shard(0)});
    EXPECT_TRUE(full_tensor(x.mean()).isnan().item<bool>());
    EXPECT_TRUE(full_tensor(x.mean(0)).isnan().all().item<bool>());
    const auto one = distribute_tensor(at::ones({1}), mesh, {Shard(0)});
    EXPECT_TRUE(full_tensor(one.var()).isnan().item<bool>());
  });
}

} // namespace moments_test

} // namespace weft
