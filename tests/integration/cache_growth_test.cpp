#include "weft/comm/world/fake_world.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace cache_growth_test {
constexpr int64_t kCalls = 100'000;

/// What this thread and the process keep of calls, plans and specs.
struct Kept {
  CallCache::Counters calls = call_cache_counters();
  PlanCacheCounters plans = plan_cache_counters();
  TensorSpec::InternCounters specs = TensorSpec::intern_counters();
};

/// Runs `fn(i)`, which makes `calls_of_one` calls with numbers that depend on i, until there were a hundred thousand: the
/// first two times may fill the caches, the others must find everything there.
void expect_no_growth(int64_t calls_of_one, const std::function<void(double i)>& fn) {
  fn(1);
  fn(2);
  const Kept before;
  const auto times = kCalls / calls_of_one;
  for (int64_t i = 0; i < times; ++i) {
    fn(3 + static_cast<double>(i));
  }
  const Kept after;
  EXPECT_GE(after.calls.hits - before.calls.hits, static_cast<size_t>(times * calls_of_one));
  EXPECT_EQ(after.calls.misses, before.calls.misses);
  EXPECT_EQ(after.calls.size, before.calls.size);
  EXPECT_EQ(after.plans.misses, before.plans.misses);
  EXPECT_EQ(after.plans.size, before.plans.size);
  EXPECT_EQ(after.specs.size, before.specs.size);
}

class CacheGrowth : public ::testing::Test {
 protected:
  at::Tensor made(const Placement& placement) const {
    return from_local(at::ones({2, 3}), mesh_, {placement});
  }

  const DeviceMesh mesh_{make_fake_world(4), c10::kCPU, {4}};
};

TEST_F(CacheGrowth, ChangingNumbersFillNoCache) {
  const auto x = made(Shard(0));
  const auto y = made(Shard(0));
  expect_no_growth(10, [&](double i) {
    x.mul(i);
    x.add(y, i);
    x.add_(y, -i);
    x.pow(i);
    x.clamp(-i, i);
    x.fill_(i);
    x.addcdiv_(y, y, i);
    x.lerp_(y, 1 / i);
    x.masked_fill(x.gt(i), i);
  });
}

TEST_F(CacheGrowth, ChangingNumbersAsTensorsFillNoCache) {
  const auto x = made(Shard(0));
  expect_no_growth(2, [&](double i) {
    const auto number = at::scalar_tensor(i);
    x.mul(number);
    x.add_(number);
  });
}

TEST_F(CacheGrowth, ChangingListsOfNumbersFillNoCache) {
  std::vector<at::Tensor> parameters{made(Shard(0)), made(Shard(1)), made(Replicate())};
  expect_no_growth(4, [&](double i) {
    const std::vector<at::Scalar> numbers{i, i + 1, i + 2};
    at::_foreach_mul_(parameters, numbers);
    at::_foreach_addcdiv_(parameters, parameters, parameters, numbers);
    at::_foreach_add(parameters, numbers);
    at::_foreach_add_(parameters, i);
  });
}

TEST_F(CacheGrowth, ChangingLearningRatesFillNoCache) {
  const auto parameter = made(Shard(0));
  const auto gradient = made(Shard(0));
  const auto average = at::zeros_like(parameter);
  const auto square = at::zeros_like(parameter);
  expect_no_growth(8, [&](double i) {
    const double rate = 1e-3 / i;
    parameter.mul_(1 - rate * 1e-2);
    average.lerp_(gradient, 0.1);
    square.mul_(0.999).addcmul_(gradient, gradient, 0.001);
    const auto root = square.sqrt().div_(std::sqrt(1 - std::pow(0.999, i))).add_(1e-8);
    parameter.addcdiv_(average, root, -rate / (1 - std::pow(0.9, i)));
  });
}

TEST_F(CacheGrowth, AFusedOptimizerWithChangingRatesFillsNoCache) {
  const std::vector<at::Tensor> parameters{made(Shard(0)), made(Shard(1))};
  const std::vector<at::Tensor> gradients{made(Shard(0)), made(Shard(1))};
  const std::vector<at::Tensor> averages{made(Shard(0)), made(Shard(1))};
  const std::vector<at::Tensor> squares{made(Shard(0)), made(Shard(1))};
  const std::vector<at::Tensor> steps{at::ones({}), at::ones({})};
  const std::vector<at::Tensor> replicated{
      redistribute(gradients[0], {Replicate()}), redistribute(gradients[1], {Replicate()})};
  expect_no_growth(1, [&](double i) {
    // Of gradients in the layouts of the parameters nothing is looked up, of others one call.
    for (const auto& given : {gradients, replicated}) {
      at::_fused_adamw_(
          parameters, given, averages, squares, /*max_exp_avg_sqs=*/{}, steps, /*lr=*/1e-3 / i, 0.9, 0.999, 1e-2, 1e-8,
          /*amsgrad=*/false, /*maximize=*/false);
    }
  });
}

TEST_F(CacheGrowth, NumbersIntoWhatIsMovedFirstFillNoCache) {
  const auto sharded = made(Shard(0));
  const auto partial = from_local(at::ones({8, 3}), mesh_, {Partial()});
  expect_no_growth(2, [&](double i) {
    partial.add(i); // reduced before a number is added
    sharded.add(partial, i);
    redistribute(sharded, {Replicate()});
  });
}

} // namespace cache_growth_test

} // namespace weft
