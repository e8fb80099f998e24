#include "weft/tensor/random/random_dropout.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <gtest/gtest.h>

#include <torch/torch.h>

namespace weft {

namespace random_dropout_test {
using testing::error_text;
namespace F = torch::nn::functional;

struct Operator {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> apply;
};

const std::vector<Operator>& all_operators() {
  static const std::vector<Operator> all = {
      {"dropout", [](const at::Tensor& x) { return F::dropout(x, F::DropoutFuncOptions().p(0.3)); }},
      {"dropout2d", [](const at::Tensor& x) { return F::dropout2d(x, F::Dropout2dFuncOptions().p(0.3)); }},
      {"alpha_dropout",
       [](const at::Tensor& x) { return F::alpha_dropout(x, F::AlphaDropoutFuncOptions().p(0.3).training(true)); }},
      {"feature_alpha_dropout",
       [](const at::Tensor& x) {
         return F::feature_alpha_dropout(x, F::FeatureAlphaDropoutFuncOptions().p(0.3).training(true));
       }},
      {"native_dropout", [](const at::Tensor& x) { return std::get<0>(at::native_dropout(x, 0.3, true)); }},
      {"rrelu", [](const at::Tensor& x) { return at::rrelu(x, 0.1, 0.4, true); }}};
  return all;
}

struct Result {
  at::Tensor output;
  at::Tensor gradient;
};

Result run(const Operator& op, const DeviceMesh& mesh, const Layout& layout) {
  // Integers and halves, so that terms of a partial value add up exactly.
  const auto global = at::arange(4 * 6 * 2 * 2, at::kFloat).view({4, 6, 2, 2}) - 40;
  const bool is_partial = layout.has_partial();
  const auto input = is_partial ? from_local(mesh.rank(0) == 0 ? global * 3 : global * -2, mesh, layout, global.sizes())
                                : distribute_tensor(global, mesh, layout);
  const auto leaf = input.detach().set_requires_grad(true);
  manual_seed(3);
  const auto output = op.apply(leaf);
  (output * output).sum().backward();
  return {full_tensor(output.detach()), full_tensor(leaf.grad())};
}

class RandomDropout : public ::testing::TestWithParam<Operator> {};

TEST_P(RandomDropout, OutputAndGradientAreTheSameInEveryLayout) {
  const auto& op = GetParam();
  Result expected;
  run_on_ranks(1, [&](int64_t /*rank*/) { expected = run(op, init_device_mesh("cpu", {1}), {Replicate()}); });
  const auto expect_on = [&](std::vector<int64_t> shape, const std::vector<Layout>& layouts) {
    run_on_ranks(c10::multiply_integers(shape), [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", shape);
      for (const auto& layout : layouts) {
        const auto actual = run(op, mesh, layout);
        EXPECT_TRUE(at::equal(actual.output, expected.output)) << mesh << " " << layout;
        EXPECT_TRUE(at::equal(actual.gradient, expected.gradient)) << mesh << " " << layout;
      }
    });
  };
  expect_on({2}, {{Replicate()}, {Shard(0)}, {Shard(1)}, {StridedShard(1, 2)}, {Partial()}});
  expect_on({3}, {{Shard(0)}, {Shard(1)}});
  expect_on({2, 2}, {{Shard(1), Shard(0)}, {Replicate(), Shard(1)}});
}

INSTANTIATE_TEST_SUITE_P(Operators, RandomDropout, ::testing::ValuesIn(all_operators()), [](const auto& test) {
  return test.param.name;
});

TEST(RandomDropoutInPlace, DropsTheSameElements) {
  run_on_ranks(3, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {3});
    const auto global = at::arange(1, 29, at::kFloat).view({4, 7});
    manual_seed(3);
    const auto expected = full_tensor(at::dropout(distribute_tensor(global, mesh, {Replicate()}), 0.5, true));
    for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}}) {
      manual_seed(3);
      auto x = distribute_tensor(global, mesh, layout);
      at::dropout_(x, 0.5, true);
      EXPECT_TRUE(at::equal(full_tensor(x), expected)) << layout;
    }
  });
}

TEST(RandomDropoutValues, KeepsAboutTheFractionAskedForAndScalesIt) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto x = distribute_tensor(at::ones({100, 100}), init_device_mesh("cpu", {2}), {Shard(0)});
    const auto y = full_tensor(at::dropout(x, 0.25, true));
    const auto kept = y.ne(0).sum().item<int64_t>();
    EXPECT_NEAR(kept, 7500, 4 * std::sqrt(10'000 * 0.25 * 0.75));
    EXPECT_TRUE(at::equal(y.masked_select(y.ne(0)), at::full({kept}, 1 / 0.75)));
  });
}

TEST(RandomDropoutValues, DrawsNothingWhereNothingIsDropped) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto x = distribute_tensor(at::ones({4, 4}), init_device_mesh("cpu", {2}), {Shard(0)});
    const auto state = random_state();
    EXPECT_TRUE(at::dropout(x, 0.5, false).is_same(x));
    EXPECT_TRUE(at::dropout(x, 0, true).is_same(x));
    const auto [output, mask] = at::native_dropout(x, 0.5, false);
    EXPECT_TRUE(at::equal(full_tensor(output), at::ones({4, 4})));
    EXPECT_TRUE(at::equal(full_tensor(mask), at::ones({4, 4}, at::kBool)));
    EXPECT_TRUE(at::equal(full_tensor(at::rrelu(x - 2, 0.25, 0.75, false)), at::full({4, 4}, -0.5)));
    EXPECT_EQ(random_state(), state);
    EXPECT_TRUE(at::equal(full_tensor(at::dropout(x, 1, true)), at::zeros({4, 4})));
  });
}

TEST(RandomDropoutValues, WorksInInferenceModeAndOnTransposedInput) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto global = at::arange(24, at::kFloat).view({4, 6});
    manual_seed(3);
    const auto expected = full_tensor(at::dropout(distribute_tensor(global, mesh, {Replicate()}), 0.5, true));
    const c10::InferenceMode inference;
    manual_seed(3);
    const auto transposed = distribute_tensor(global.t().contiguous(), mesh, {Shard(0)}).t();
    EXPECT_TRUE(at::equal(full_tensor(at::dropout(transposed, 0.5, true)), expected));
  });
}

TEST(RandomDropoutErrors, AProbabilityIsRequired) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto x = distribute_tensor(at::ones({4, 4}), init_device_mesh("cpu", {2}), {Shard(0)});
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { at::dropout(x, 1.5, true); }),
        "[dropout] a probability in [0, 1] is required, but got 1.5.");
  });
}

} // namespace random_dropout_test

} // namespace weft
