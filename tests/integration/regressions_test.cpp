#include "tests/support/layout_cases.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/utils/clip_grad.h>

/// What other distributed tensors are known to get wrong.

namespace weft {

namespace regressions_test {
using namespace weft::testing;

at::Tensor numbers(c10::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).view(sizes) - 7;
}

at::Tensor placed(const at::Tensor& global, const DeviceMesh& mesh, const Layout& layout) {
  const auto local = local_by_definition(global, layout, mesh.shape(), mesh.coordinate()).clone();
  return from_local(local, mesh, layout, global.sizes());
}

void expect_equals(const at::Tensor& tensor, const at::Tensor& expected) {
  const auto global = full_tensor(tensor);
  EXPECT_EQ(global.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(global, expected)) << global << "\ninstead of\n" << expected;
}

int64_t calls_of(const CommLog& log, Collective collective) {
  int64_t calls = 0;
  for (const auto& row : log.rows()) {
    calls += row.collective == collective ? row.calls : 0;
  }
  return calls;
}

TEST(Regressions, AViewThatNoCutSurvivesIsMovedAndNotGuessed) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {4});
    const auto global = numbers({12, 8});
    expect_equals(placed(global, mesh, {Shard(1)}).view({16, 6}), global.view({16, 6}));
    expect_equals(placed(global, mesh, {Shard(0)}).view({16, 6}), global.view({16, 6}));
  });
}

TEST(Regressions, UnevenPiecesOverTwoMeshDimsAreGatheredAtOnce) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"a", "b"});
    const auto global = numbers({5, 3});
    const auto tensor = placed(global, mesh, {Shard(0), Shard(0)});
    const CommLog log(mesh);
    expect_equals(tensor, global);
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    expect_equals(placed(global, mesh.flatten(std::vector<std::string>{"a", "b"}), {Shard(0)}), global);
  });
}

TEST(Regressions, ANumberIsMultipliedIntoEveryTermAndAddedOnce) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto global = numbers({4, 3});
    for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}) {
      const auto tensor = placed(global, mesh, {Partial(op)});
      expect_equals(tensor * 2.5, global * 2.5);
      expect_equals(tensor * -2.5, global * -2.5);
      expect_equals(tensor / 4, global / 4);
      expect_equals(tensor + 3, global + 3);
      expect_equals(1 - tensor, 1 - global);
      expect_equals(tensor * tensor, global * global);
    }
  });
}

TEST(Regressions, ASumBecomesAnAverageOfTheSameValue) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"a", "b"});
    const auto global = numbers({4, 3});
    const Layout sums{Partial(), Partial()};
    const Layout averages{Partial(ReduceOp::Avg), Partial(ReduceOp::Avg)};
    expect_equals(redistribute(placed(global, mesh, sums), averages), global);
    expect_equals(redistribute(placed(global, mesh, averages), sums), global);
    expect_equals(placed(global, mesh, sums) + placed(global, mesh, averages), global + global);
  });
}

TEST(Regressions, MaximumAndNormOfTermsAreThoseOfTheirSum) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto global = numbers({4, 3});
    const auto tensor = placed(global, mesh, {Partial()});
    expect_equals(tensor.max(), global.max());
    expect_equals(tensor.amax(1), global.amax(1));
    expect_equals(tensor.norm(), global.norm());
    expect_equals(at::linalg_vector_norm(tensor, 1, {0}), at::linalg_vector_norm(global, 1, {0}));
    EXPECT_EQ(tensor.max().item<float>(), global.max().item<float>());
  });
}

TEST(Regressions, TheMeanOverUnevenPiecesWeighsEveryElementAlike) {
  for (const int64_t ranks : {2, 3, 4}) {
    run_on_ranks(ranks, [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", {ranks});
      const auto global = numbers({5, 3}).square();
      const auto tensor = placed(global, mesh, {Shard(0)});
      expect_equals(tensor.mean(), global.mean());
      expect_equals(tensor.mean(0), global.mean(0));
      expect_equals(tensor.var(0), global.var(0));
      expect_equals(tensor.std(), global.std());
    });
  }
}

TEST(Regressions, LinearKeepsASequenceThatIsCut) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto x = numbers({2, 6, 4});
    const auto w = numbers({8, 4});
    const auto sequence = distribute_tensor(x, mesh, {Shard(1)}).requires_grad_();
    const auto columns = distribute_tensor(w, mesh, {Shard(0)}).requires_grad_();
    const auto activation = sequence.clone(); // no parameter: it comes to the weight

    const CommLog forward(mesh);
    const auto y = at::linear(activation, columns);
    EXPECT_EQ(calls_of(forward, Collective::AllGather), 1) << forward.to_string();
    EXPECT_EQ(forward.calls(), 1) << forward.to_string();
    EXPECT_EQ(spec_of(y)->layout(), Layout({Shard(2)}));
    expect_equals(y.detach(), at::linear(x, w));

    const auto loss = y.square().sum();
    const CommLog backward(mesh);
    const auto gradient = torch::autograd::grad({loss}, {sequence})[0];
    EXPECT_EQ(calls_of(backward, Collective::ReduceScatter), 1) << backward.to_string();
    EXPECT_EQ(backward.calls(), 1) << backward.to_string();
    EXPECT_EQ(spec_of(gradient)->layout(), Layout({Shard(1)}));
    expect_equals(gradient, 2 * at::matmul(at::linear(x, w), w));
  });
}

TEST(Regressions, LinearOnARowCutWeightLeavesASumThatIsScatteredToTheSequence) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto x = numbers({2, 6, 4});
    const auto w = numbers({3, 4});
    const auto features = distribute_tensor(x, mesh, {Shard(2)});
    const auto rows = distribute_tensor(w, mesh, {Shard(1)});
    const CommLog log(mesh);
    const auto y = at::linear(features, rows);
    EXPECT_EQ(spec_of(y)->layout(), Layout({Partial()}));
    const auto scattered = redistribute(y, {Shard(1)});
    EXPECT_EQ(calls_of(log, Collective::ReduceScatter), 1) << log.to_string();
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    expect_equals(scattered, at::linear(x, w));
  });
}

/// How many entries the cache of prepared calls has when `step` has been called this often.
size_t cache_size_after(int64_t times, const std::function<void(int64_t)>& step) {
  for (int64_t i = 0; i < times; ++i) {
    step(i);
  }
  return call_cache_counters().size;
}

TEST(Regressions, StackingAndChangingNumbersDoNotFillTheCache) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const std::vector<at::Tensor> tensors = {
        distribute_tensor(numbers({4, 3}), mesh, {Shard(0)}), distribute_tensor(numbers({4, 3}), mesh, {Shard(0)})};
    const auto step = [&](int64_t i) {
      const auto number = 0.5 + static_cast<double>(i) * 1e-3;
      at::stack(tensors);
      tensors[0].mul(number);
      at::add(tensors[0], tensors[1], number);
      at::_foreach_mul(tensors, number);
      at::_foreach_add_(tensors, number);
      at::_foreach_add(tensors, tensors, number);
      at::_foreach_mul(tensors, std::vector<at::Scalar>{number, 1 - number});
      at::_foreach_addcdiv(tensors, tensors, tensors, std::vector<at::Scalar>{number, -number});
    };
    const auto first = cache_size_after(2, step);
    const auto misses = call_cache_counters().misses;
    EXPECT_EQ(cache_size_after(1000, step), first);
    EXPECT_EQ(call_cache_counters().misses, misses);
  });
}

/// What clipping the gradients of many parameters asks of a rank.
struct ClipCounts {
  int64_t collectives = 0;
  size_t operators = 0;
  size_t prepared = 0;
};

ClipCounts clip(const DeviceMesh& mesh, int64_t count) {
  std::vector<at::Tensor> parameters;
  at::Tensor squares = at::zeros({});
  for (int64_t i = 0; i < count; ++i) {
    const auto gradient = numbers({4, 3}) + i % 5;
    const auto layout = i % 2 == 0 ? Layout{Shard(0)} : Layout{Shard(1)};
    parameters.push_back(distribute_tensor(at::zeros({4, 3}), mesh, layout).requires_grad_());
    parameters.back().mutable_grad() = distribute_tensor(gradient, mesh, layout);
    squares += gradient.square().sum();
  }
  const auto before = call_cache_counters();
  const CommLog log(mesh);
  const auto norm = torch::nn::utils::clip_grad_norm_(parameters, /*max_norm=*/1.0);
  const auto collectives = log.calls();
  const auto after = call_cache_counters();
  EXPECT_NEAR(norm, squares.sqrt().item<double>(), 1e-3 * norm);
  expect_equals(parameters[1].grad(), (numbers({4, 3}) + 1) / norm);
  return {collectives, after.hits + after.misses - before.hits - before.misses, after.misses - before.misses};
}

TEST(Regressions, ClippingGradientsGrowsLinearlyWithTheirNumber) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    clip(mesh, 10);
    const auto hundred = clip(mesh, 100);
    const auto thousand = clip(mesh, 1000);
    EXPECT_LE(thousand.operators, 10 * hundred.operators);
    EXPECT_LE(thousand.collectives, 10 * hundred.collectives);
    EXPECT_LE(thousand.prepared, hundred.prepared) << "calls are prepared anew for every gradient";
  });
}

} // namespace regressions_test

} // namespace weft
