#include "weft/tensor/random/random_cpu.h"

#include "weft/comm/world/fake_world.h"
#include "weft/tensor/random/philox.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

namespace weft {

namespace random_cpu_test {
constexpr RandomCall kCall{11, 3};

DeviceMesh one_rank() {
  return DeviceMesh(make_fake_world(1), c10::kCPU, {1});
}

at::Tensor numbers(const Distribution& distribution, int64_t count, at::ScalarType dtype) {
  const auto result = at::empty({count}, dtype);
  fill_random_cpu(
      result, LocalIndices(*TensorSpec::make(one_rank(), {Replicate()}, {count}, dtype)), distribution, kCall);
  return result;
}

/// The word of an element in a group of 64, as the header of the samplers states it.
uint32_t word_of(int64_t element) {
  const auto group = element / 64;
  return philox(kCall.seed, group * 16 + element % 16, kCall.number).words[element / 16 % 4];
}

TEST(RandomCpu, UniformNumbersAreTheUpperBitsOfTheWords) {
  const auto actual = numbers(Distribution::uniform(0, 1), 1000, at::kFloat);
  for (int64_t i = 0; i < actual.numel(); ++i) {
    EXPECT_EQ(actual[i].item<float>(), static_cast<float>(word_of(i) >> 8) * 0x1p-24F);
  }
}

TEST(RandomCpu, NormalNumbersAreBoxMullersOfTheWords) {
  const auto actual = numbers(Distribution::normal(0.5, 3), 64 * 50, at::kFloat);
  for (int64_t i = 0; i < actual.numel(); ++i) {
    const auto first = i / 32 * 32 + i % 16;
    const double u = (static_cast<float>(word_of(first) >> 1) + 0.5F) * 0x1p-31F;
    const double angle = 2 * M_PI * word_of(first + 16) * 0x1p-32;
    const double z = std::sqrt(-2 * std::log(u)) * (i % 32 < 16 ? std::cos(angle) : std::sin(angle));
    EXPECT_NEAR(actual[i].item<float>(), 3 * z + 0.5, 1e-6 * (1 + std::abs(z))) << "element " << i;
  }
}

TEST(RandomCpu, ANumberDoesNotDependOnWhereItsRangeBegins) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const auto global = numbers(Distribution::normal(0, 1), 4 * 101, dtype);
    for (int64_t r = 0; r < 4; ++r) {
      const DeviceMesh mesh(make_fake_world(4, r), c10::kCPU, {4});
      const auto local = at::empty({101}, dtype);
      const LocalIndices indices(*TensorSpec::make(mesh, {Shard(0)}, {4 * 101}, dtype));
      fill_random_cpu(local, indices, Distribution::normal(0, 1), kCall);
      EXPECT_TRUE(at::equal(local, global.slice(0, 101 * r, 101 * (r + 1)))) << dtype << ", rank " << r;
    }
  }
}

TEST(RandomCpu, LargeTensorsAreMadeInParallelWithTheSameNumbers) {
  const auto threads = at::get_num_threads();
  const auto at_once = [&](int count) {
    at::set_num_threads(count);
    return numbers(Distribution::uniform(0, 1), 200'003, at::kFloat);
  };
  const auto alone = at_once(1);
  const auto together = at_once(3);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone, together));
}

TEST(RandomCpu, AHalfOpenIntervalNeverReachesItsEnd) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const auto& [from, to] : {std::pair{0.0, 1.0}, {1.0, 1.01}, {-2.0, -1.5}, {-1.0, 0.0}, {1.0, 2.0}}) {
      const auto values = numbers(Distribution::uniform(from, to), 100'000, dtype).to(at::kDouble);
      EXPECT_LT(values.max().item<double>(), to) << dtype;
      // The interval's begin is rounded to the dtype.
      EXPECT_GE(values.min().item<double>(), at::scalar_tensor(from, dtype).item<double>()) << dtype;
    }
    EXPECT_TRUE(at::equal(numbers(Distribution::uniform(3, 3), 10, dtype), at::full({10}, 3, dtype)));
  }
}

TEST(RandomCpu, ExponentialNumbersAreNeverZero) {
  EXPECT_GT(numbers(Distribution::exponential(1), 3'000'000, at::kFloat).min().item<float>(), 0);
}

TEST(RandomCpu, IntegersFillTheirRangeAndNoMore) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kChar}) {
    const auto values = numbers(Distribution::integers(-3, 7), 1000, dtype);
    EXPECT_TRUE(at::equal(std::get<0>(at::_unique(values)), at::arange(-3, 4).to(dtype))) << dtype;
  }
  const auto words = numbers(Distribution::integers(std::numeric_limits<int64_t>::min(), 0), 1000, at::kLong);
  EXPECT_NEAR(words.lt(0).sum().item<int64_t>(), 500, 60) << "a count of 0 stands for all of them";
}

TEST(RandomCpu, ABernoulliTrialIsTheSameInEveryDtype) {
  const auto expected = numbers(Distribution::bernoulli(0.3), 500, at::kFloat);
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kByte, at::kBool}) {
    EXPECT_TRUE(at::equal(numbers(Distribution::bernoulli(0.3), 500, dtype).to(at::kFloat), expected)) << dtype;
  }
  EXPECT_EQ(numbers(Distribution::bernoulli(0), 500, at::kFloat).sum().item<float>(), 0);
  EXPECT_EQ(numbers(Distribution::bernoulli(1), 500, at::kFloat).sum().item<float>(), 500);
}

struct Expected {
  const char* name;
  Distribution distribution;
  std::function<double(double)> below; // the distribution function
};

class RandomCpuDistribution : public ::testing::TestWithParam<Expected> {};

/// Kolmogorov and Smirnov: the largest distance from the distribution function, times sqrt(n), is above 1.95 in one of
/// a thousand samples. The sample is fixed by its seed.
TEST_P(RandomCpuDistribution, FollowsItsDistributionFunction) {
  const auto& [name, distribution, below] = GetParam();
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    constexpr int64_t kCount = 200'000;
    const auto sorted = std::get<0>(numbers(distribution, kCount, dtype).to(at::kDouble).sort());
    const auto* values = sorted.const_data_ptr<double>();
    double distance = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const double expected = below(values[i]);
      distance =
          std::max({distance, std::abs(expected - double(i) / kCount), std::abs(expected - double(i + 1) / kCount)});
    }
    EXPECT_LT(distance * std::sqrt(double(kCount)), 1.95) << name << " " << dtype;
  }
}

double normal_below(double x) {
  return std::erfc(-x / M_SQRT2) / 2;
}

INSTANTIATE_TEST_SUITE_P(
    Distributions,
    RandomCpuDistribution,
    ::testing::Values(
        Expected{"uniform", Distribution::uniform(-1, 3), [](double x) { return (x + 1) / 4; }},
        Expected{"normal", Distribution::normal(1, 2), [](double x) { return normal_below((x - 1) / 2); }},
        Expected{
            "log_normal", Distribution::log_normal(0.5, 0.7),
            [](double x) { return normal_below((std::log(x) - 0.5) / 0.7); }},
        Expected{"exponential", Distribution::exponential(1.5), [](double x) { return -std::expm1(-1.5 * x); }},
        Expected{"cauchy", Distribution::cauchy(1, 2), [](double x) { return 0.5 + std::atan((x - 1) / 2) / M_PI; }}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(RandomCpu, GeometricNumbersHaveTheirFrequencies) {
  constexpr int64_t kCount = 200'000;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kLong}) {
    const auto values = numbers(Distribution::geometric(0.3), kCount, dtype);
    double probability = 0.3;
    for (int64_t trials = 1; trials < 8; ++trials, probability *= 0.7) {
      const auto found = values.eq(trials).sum().item<double>();
      const auto deviation = std::sqrt(kCount * probability * (1 - probability));
      EXPECT_NEAR(found, kCount * probability, 4 * deviation) << trials << " trials, " << dtype;
    }
    EXPECT_EQ(values.lt(1).sum().item<int64_t>(), 0);
  }
}

TEST(RandomCpu, NeighboursAndCallsAreNotCorrelated) {
  constexpr int64_t kCount = 200'000;
  const auto values = numbers(Distribution::normal(0, 1), kCount, at::kDouble);
  for (const int64_t distance : {1, 2, 8, 16, 32, 64}) {
    const auto product = values.slice(0, distance).mul(values.slice(0, 0, kCount - distance)).mean().item<double>();
    EXPECT_LT(std::abs(product) * std::sqrt(double(kCount)), 4) << distance;
  }
  const auto next_call = at::empty({kCount}, at::kDouble);
  const auto spec = TensorSpec::make(one_rank(), {Replicate()}, {kCount}, at::kDouble);
  fill_random_cpu(next_call, LocalIndices(*spec), Distribution::normal(0, 1), {kCall.seed, kCall.number + 1});
  EXPECT_LT(std::abs(values.mul(next_call).mean().item<double>()) * std::sqrt(double(kCount)), 4);
}

} // namespace random_cpu_test

} // namespace weft
