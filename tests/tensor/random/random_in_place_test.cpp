#include "weft/tensor/random/random_in_place.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace weft {

namespace random_in_place_test {
using testing::error_text;

struct Operator {
  std::string name;
  std::function<void(at::Tensor)> fill;
  at::ScalarType dtype = at::kFloat;
};

const std::vector<Operator>& all_operators() {
  static const std::vector<Operator> all = {
      {"uniform_", [](at::Tensor t) { t.uniform_(-1, 2); }},
      {"uniform_ f64", [](at::Tensor t) { t.uniform_(); }, at::kDouble},
      {"normal_", [](at::Tensor t) { t.normal_(1, 3); }},
      {"normal_ bf16", [](at::Tensor t) { t.normal_(); }, at::kBFloat16},
      {"log_normal_", [](at::Tensor t) { t.log_normal_(); }},
      {"exponential_", [](at::Tensor t) { t.exponential_(2); }},
      {"cauchy_", [](at::Tensor t) { t.cauchy_(); }},
      {"geometric_", [](at::Tensor t) { t.geometric_(0.25); }},
      {"geometric_ i32", [](at::Tensor t) { t.geometric_(0.25); }, at::kInt},
      {"bernoulli_", [](at::Tensor t) { t.bernoulli_(0.25); }},
      {"bernoulli_ bool", [](at::Tensor t) { t.bernoulli_(0.25); }, at::kBool},
      {"bernoulli_ of a number", [](at::Tensor t) { t.bernoulli_(at::scalar_tensor(0.25)); }},
      {"random_ f32", [](at::Tensor t) { t.random_(); }},
      {"random_ i64", [](at::Tensor t) { t.random_(); }, at::kLong},
      {"random_ u8", [](at::Tensor t) { t.random_(); }, at::kByte},
      {"random_ from to", [](at::Tensor t) { t.random_(-4, 9); }, at::kInt},
      {"random_ from", [](at::Tensor t) { t.random_(100, std::optional<int64_t>()); }, at::kChar},
      {"random_ to", [](at::Tensor t) { t.random_(5); }},
      {"a generator's", [](at::Tensor t) { t.normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(3)); }}};
  return all;
}

at::Tensor filled(const Operator& op, const DeviceMesh& mesh, const Layout& layout) {
  manual_seed(3);
  const auto tensor = distribute_tensor(at::zeros({7, 10}, op.dtype), mesh, layout);
  op.fill(tensor);
  EXPECT_EQ(spec_of(tensor)->layout(), layout);
  return full_tensor(tensor);
}

class RandomInPlace : public ::testing::TestWithParam<Operator> {};

TEST_P(RandomInPlace, GivesTheSameTensorInEveryLayout) {
  const auto& op = GetParam();
  at::Tensor expected;
  run_on_ranks(1, [&](int64_t /*rank*/) { expected = filled(op, init_device_mesh("cpu", {1}), {Replicate()}); });
  EXPECT_GT(std::get<0>(at::_unique(expected)).numel(), 1);
  const auto expect_on = [&](std::vector<int64_t> shape, const std::vector<Layout>& layouts) {
    run_on_ranks(c10::multiply_integers(shape), [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", shape);
      for (const auto& layout : layouts) {
        EXPECT_TRUE(at::equal(filled(op, mesh, layout), expected)) << mesh << " " << layout;
      }
    });
  };
  expect_on({2}, {{Replicate()}, {Shard(0)}, {Shard(1)}, {StridedShard(1, 3)}});
  expect_on({3}, {{Shard(0)}, {Shard(1)}});
  expect_on({2, 2}, {{Shard(0), Shard(0)}, {Shard(1), Shard(0)}, {Replicate(), Shard(1)}});
}

INSTANTIATE_TEST_SUITE_P(Operators, RandomInPlace, ::testing::ValuesIn(all_operators()), [](const auto& test) {
  auto name = test.param.name;
  std::replace_if(name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(RandomInPlaceBernoulli, TakesProbabilitiesOfAnotherLayoutOrBroadcastOnes) {
  const auto probabilities = at::linspace(0, 1, 10);
  const auto filled_by = [&](const DeviceMesh& mesh, const Layout& layout, const at::Tensor& p) {
    manual_seed(3);
    auto tensor = distribute_tensor(at::zeros({7, 10}), mesh, layout);
    tensor.bernoulli_(p);
    return full_tensor(tensor);
  };
  at::Tensor expected;
  run_on_ranks(1, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {1});
    expected = filled_by(mesh, {Replicate()}, distribute_tensor(probabilities, mesh, {Replicate()}));
  });
  EXPECT_EQ(expected.select(1, 0).sum().item<float>(), 0);
  EXPECT_EQ(expected.select(1, 9).sum().item<float>(), 7);
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto global = probabilities.expand({7, 10}).contiguous();
    for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}}) {
      EXPECT_TRUE(at::equal(filled_by(mesh, layout, distribute_tensor(probabilities, mesh, {Shard(0)})), expected));
      EXPECT_TRUE(at::equal(filled_by(mesh, layout, distribute_tensor(global, mesh, {Shard(1)})), expected));
      const auto halves = from_local(global / 2, mesh, {Partial()}, global.sizes());
      EXPECT_TRUE(at::equal(filled_by(mesh, layout, halves), expected));
    }
  });
}

TEST(RandomInPlaceView, WritesThroughAViewByItsOwnIndices) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    manual_seed(3);
    const auto expected = distribute_tensor(at::zeros({10, 7}), mesh, {Replicate()}).normal_();
    manual_seed(3);
    const auto base = distribute_tensor(at::zeros({7, 10}), mesh, {Shard(1)});
    base.t().normal_();
    EXPECT_TRUE(at::equal(full_tensor(base), full_tensor(expected).t()));
  });
}

TEST(RandomInPlaceErrors, SayWhatIsRequired) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto x = distribute_tensor(at::zeros({4}), mesh, {Shard(0)});
    const auto value_error = [](const std::function<void()>& fn) { return error_text<c10::ValueError>(fn); };
    EXPECT_EQ(value_error([&] { x.uniform_(2, 1); }), "[uniform_] a finite interval is required, but got from 2 to 1.");
    EXPECT_EQ(
        value_error([&] { x.normal_(0, -1); }),
        "[normal_] a standard deviation of at least 0 is required, but got -1.");
    EXPECT_EQ(
        value_error([&] { x.log_normal_(0, 0); }),
        "[log_normal_] a standard deviation above 0 is required, but got 0.");
    EXPECT_EQ(value_error([&] { x.exponential_(0); }), "[exponential_] a lambda above 0 is required, but got 0.");
    EXPECT_EQ(value_error([&] { x.cauchy_(0, 0); }), "[cauchy_] a sigma above 0 is required, but got 0.");
    EXPECT_EQ(value_error([&] { x.geometric_(1); }), "[geometric_] a probability in (0, 1) is required, but got 1.");
    EXPECT_EQ(
        value_error([&] { x.bernoulli_(1.5); }), "[bernoulli_] a probability in [0, 1] is required, but got 1.5.");
    EXPECT_EQ(value_error([&] { x.random_(3, 3); }), "[random_] a from below to is required, but got from 3 to 3.");
    const auto bytes = distribute_tensor(at::zeros({4}, at::kByte), mesh, {Shard(0)});
    EXPECT_EQ(
        value_error([&] { bytes.random_(0, 300); }),
        "[random_] bounds within u8 are required, but got from 0 up to 299. Use a wider dtype.");
    EXPECT_EQ(
        value_error([&] { from_local(at::zeros({4}), mesh, {Partial()}).normal_(); }),
        "[random] a tensor of placements R and S is required, but got f32[4] @ mesh(d0=2) {P(sum)}. Numbers cannot be "
        "written to a partial value; redistribute it first.");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { at::zeros({4}).bernoulli_(x); }),
        "[bernoulli_] numbers for a plain tensor of shape [4] cannot depend on a distributed one. Distribute it with "
        "distribute_tensor or from_local.");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { x.bernoulli_(at::zeros({4})); }),
        "[bernoulli_] distributed and plain tensors cannot be mixed, but got a plain one of shape [4]. Distribute it "
        "with distribute_tensor or from_local.");
  });
}

} // namespace random_in_place_test

} // namespace weft
