#include "weft/tensor/random/random_fallback.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace weft {

namespace random_fallback_test {
using testing::error_text;

struct Operator {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> make;
};

const std::vector<Operator>& all_operators() {
  static const std::vector<Operator> all = {
      {"poisson", [](const at::Tensor& t) { return at::poisson(t); }},
      {"binomial", [](const at::Tensor& t) { return at::binomial(t, t / 100); }},
      {"standard_gamma", [](const at::Tensor& t) { return at::_standard_gamma(t); }},
      {"sample_dirichlet", [](const at::Tensor& t) { return at::_sample_dirichlet(t); }},
      {"poisson_generator",
       [](const at::Tensor& t) { return at::poisson(t, at::make_generator<at::CPUGeneratorImpl>(5)); }}};
  return all;
}

class RandomFallback : public ::testing::TestWithParam<Operator> {};

TEST_P(RandomFallback, GivesTheSameReplicatedTensorForEveryLayout) {
  const auto& make = GetParam().make;
  const auto input = at::arange(1, 71, at::kFloat).view({7, 10});
  at::Tensor expected;
  const auto made = [&](const DeviceMesh& mesh, const Layout& layout) {
    manual_seed(3);
    return full_tensor(make(distribute_tensor(input, mesh, layout)));
  };
  run_on_ranks(1, [&](int64_t /*rank*/) { expected = made(init_device_mesh("cpu", {1}), {Replicate()}); });
  EXPECT_GT(std::get<0>(at::_unique(expected)).numel(), 1);
  std::vector<at::Tensor> replicas(3);
  run_on_ranks(3, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {3});
    for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}}) {
      replicas[rank] = made(mesh, layout);
      EXPECT_TRUE(at::equal(replicas[rank], expected)) << layout << ", rank " << rank;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Operators, RandomFallback, ::testing::ValuesIn(all_operators()), [](const auto& test) {
  return test.param.name;
});

TEST(RandomFallbackState, EveryCallGivesOtherNumbers) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto rates = distribute_tensor(at::full({20}, 50.0), init_device_mesh("cpu", {2}), {Shard(0)});
    const auto state = random_state();
    const auto first = full_tensor(at::poisson(rates));
    EXPECT_EQ(random_state().calls, state.calls + 1);
    EXPECT_FALSE(at::equal(full_tensor(at::poisson(rates)), first));
  });
}

TEST(RandomFallbackOut, IsStoredInAReplicatedTensorOnly) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto weights = distribute_tensor(at::full({6, 10}, 0.5), mesh, {Shard(0)});
    const std::optional<at::Generator> own_generator;
    auto out = distribute_tensor(at::zeros({6, 10}), mesh, {Replicate()});
    manual_seed(3);
    EXPECT_TRUE(at::bernoulli_out(out, weights, own_generator).is_same(out));
    const auto expected = to_local(out).clone();
    manual_seed(3);
    at::bernoulli_out(out, weights, own_generator);
    EXPECT_TRUE(at::equal(to_local(out), expected));
    auto sharded = distribute_tensor(at::zeros({6, 10}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] { at::bernoulli_out(sharded, weights, own_generator); }),
        "[aten::bernoulli] can be stored in a replicated tensor only, but got f32[6,10] @ mesh(d0=2) {S(0)}. "
        "Redistribute it to R first, or use the functional form.");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { at::binomial(weights, at::ones({6, 10})); }),
        "[aten::binomial] distributed and plain tensors cannot be mixed, but argument 'prob' is a plain tensor of "
        "shape "
        "[6, 10]. Distribute it with distribute_tensor or from_local.");
  });
}

TEST(InnerDropout, IsRefusedInsideAKernel) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto x = distribute_tensor(at::ones({2, 2, 4, 8}), mesh, {Shard(0)});
    EXPECT_NO_THROW(at::_scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.0));
    // Those of other devices refuse it too, before a device is looked at.
    const std::vector<std::pair<std::string, std::function<void()>>> kernels = {
        {"flash_attention_for_cpu", [&] { at::_scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.5); }},
        {"flash_attention", [&] { at::_scaled_dot_product_flash_attention(x, x, x, 0.5); }},
        {"efficient_attention", [&] { at::_scaled_dot_product_efficient_attention(x, x, x, {}, true, 0.5); }},
        {"cudnn_attention", [&] { at::_scaled_dot_product_cudnn_attention(x, x, x, {}, true, 0.5); }}};
    for (const auto& [name, call] : kernels) {
      EXPECT_EQ(
          error_text<c10::NotImplementedError>(call),
          "[aten::_scaled_dot_product_" + name +
              "] a dropout of 0 is required on distributed tensors, but got 0.5: the kernel would draw numbers that "
              "differ "
              "between ranks. Use scaled_dot_product_attention, or dropout as an operator of its own.");
    }
  });
}

} // namespace random_fallback_test

} // namespace weft
