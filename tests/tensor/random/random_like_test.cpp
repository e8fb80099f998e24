#include "weft/tensor/random/random_like.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace weft {

namespace random_like_test {
using testing::error_text;

struct Operator {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> make;
};

at::Generator generator() {
  return at::make_generator<at::CPUGeneratorImpl>(3);
}

const std::vector<Operator>& all_operators() {
  static const std::vector<Operator> all = {
      {"bernoulli", [](const at::Tensor& t) { return at::bernoulli(t); }},
      {"bernoulli_p", [](const at::Tensor& t) { return at::bernoulli(t, 0.4); }},
      {"rand_like", [](const at::Tensor& t) { return at::rand_like(t); }},
      {"rand_like_f64", [](const at::Tensor& t) { return at::rand_like(t, at::kDouble); }},
      {"rand_like_generator", [](const at::Tensor& t) { return at::rand_like(t, generator()); }},
      {"randn_like", [](const at::Tensor& t) { return at::randn_like(t); }},
      {"randn_like_generator", [](const at::Tensor& t) { return at::randn_like(t, generator()); }},
      {"randint_like", [](const at::Tensor& t) { return at::randint_like(t, 9); }},
      {"randint_like_i64", [](const at::Tensor& t) { return at::randint_like(t, 9, at::kLong); }},
      {"randint_like_low", [](const at::Tensor& t) { return at::randint_like(t, -5, 9); }},
      {"normal_of_mean", [](const at::Tensor& t) { return at::normal(t, 2.0); }},
      {"normal_of_deviation", [](const at::Tensor& t) { return at::normal(2.0, t); }},
      {"normal_of_both", [](const at::Tensor& t) { return at::normal(t, t); }},
      // Composed by ATen of the operators above.
      {"uniform", [](const at::Tensor& t) { return at::uniform(t, 0, 3); }},
      {"exponential", [](const at::Tensor& t) { return at::exponential(t); }},
      {"random", [](const at::Tensor& t) { return at::random(t, 7); }}};
  return all;
}

class RandomLike : public ::testing::TestWithParam<Operator> {};

TEST_P(RandomLike, GivesTheSameTensorInEveryLayout) {
  const auto& make = GetParam().make;
  const auto input = at::linspace(0, 1, 70).view({7, 10});
  const auto made = [&](const DeviceMesh& mesh, const Layout& layout) {
    manual_seed(3);
    const auto result = make(distribute_tensor(input, mesh, layout));
    EXPECT_TRUE(is_dtensor(result));
    return result;
  };
  at::Tensor expected;
  run_on_ranks(1, [&](int64_t /*rank*/) { expected = full_tensor(made(init_device_mesh("cpu", {1}), {Replicate()})); });
  EXPECT_GT(std::get<0>(at::_unique(expected)).numel(), 1);
  const auto expect_on = [&](std::vector<int64_t> shape, const std::vector<Layout>& layouts) {
    run_on_ranks(c10::multiply_integers(shape), [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", shape);
      for (const auto& layout : layouts) {
        EXPECT_TRUE(at::equal(full_tensor(made(mesh, layout)), expected)) << mesh << " " << layout;
      }
    });
  };
  expect_on({2}, {{Replicate()}, {Shard(0)}, {Shard(1)}});
  expect_on({3}, {{Shard(0)}, {Shard(1)}});
  expect_on({2, 2}, {{Shard(1), Shard(0)}, {Replicate(), Shard(1)}});
}

INSTANTIATE_TEST_SUITE_P(Operators, RandomLike, ::testing::ValuesIn(all_operators()), [](const auto& test) {
  return test.param.name;
});

TEST(RandomLikePartial, ResultsHaveTheInputsLayoutAndAreReplicatedWhereThatIsPartial) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2, 2});
    const auto halves = from_local(at::full({3, 6}, 0.25), mesh, {Partial(), Shard(0)}, c10::IntArrayRef{6, 6});
    const Layout expected{Replicate(), Shard(0)};
    EXPECT_EQ(spec_of(at::rand_like(halves))->layout(), expected);
    EXPECT_EQ(spec_of(at::bernoulli(halves, 0.5))->layout(), expected);
    EXPECT_EQ(spec_of(at::bernoulli(halves))->layout(), expected);
    manual_seed(3);
    const auto drawn = full_tensor(at::bernoulli(halves));
    manual_seed(3);
    EXPECT_TRUE(at::equal(full_tensor(at::bernoulli(halves, 0.5)), drawn)) << "the sum of both halves is 0.5";
  });
}

TEST(RandomLikeNormal, BroadcastsMeanAndDeviation) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto mean = at::arange(4, at::kFloat).view({4, 1}) * 10;
    const auto deviation = at::arange(1, 6, at::kFloat);
    manual_seed(3);
    const auto numbers = full_tensor(at::randn_like(distribute_tensor(at::zeros({4, 5}), mesh, {Replicate()})));
    for (const auto& [a, b] :
         {std::pair{Layout{Shard(0)}, Layout{Shard(0)}}, {Layout{Replicate()}, Layout{Shard(0)}}}) {
      manual_seed(3);
      const auto result = at::normal(distribute_tensor(mean, mesh, a), distribute_tensor(deviation, mesh, b));
      EXPECT_TRUE(at::equal(full_tensor(result), numbers * deviation + mean)) << a << " " << b;
    }
  });
}

TEST(RandomLikeErrors, SayWhatIsRequired) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto x = distribute_tensor(at::zeros({4}), init_device_mesh("cpu", {2}), {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] { at::rand_like(x, at::TensorOptions().layout(at::kSparse)); }),
        "[rand_like] a dense result on cpu, where f32[4] @ mesh(d0=2) {S(0)} is, is required, but got Sparse on cpu. "
        "Convert the result.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { at::normal(x, -1.0); }),
        "[normal] a standard deviation of at least 0 is required, but got -1.");
  });
}

} // namespace random_like_test

} // namespace weft
