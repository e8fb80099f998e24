#include "weft/nn/cross_entropy.h"

#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft::nn {

namespace cross_entropy_test {
using namespace weft::testing;

struct Options {
  int64_t reduction = at::Reduction::Mean;
  int64_t ignore_index = -100;
  double label_smoothing = 0;
};

std::vector<Options> all_options(const std::vector<int64_t>& ignored) {
  std::vector<Options> all;
  for (const int64_t reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    for (const auto ignore_index : ignored) {
      for (const double label_smoothing : {0.0, 0.3, 1.0}) {
        all.push_back({reduction, ignore_index, label_smoothing});
      }
    }
  }
  return all;
}

at::Tensor loss_of(const Values& in, const Options& options) {
  return at::cross_entropy_loss(
      in[0], in[1], in.size() > 2 ? std::optional(in[2]) : std::nullopt, options.reduction, options.ignore_index,
      options.label_smoothing);
}

/// A gradient that differs by row.
void run_backward(const at::Tensor& loss) {
  (loss.dim() == 0 ? loss * 3 : (loss * loss).sum()).backward();
}

at::Tensor classes(c10::IntArrayRef sizes, int64_t count) {
  const auto numbers = at::arange(c10::multiply_integers(sizes), at::kLong);
  return (numbers * numbers + 1).remainder(count).view(sizes);
}

at::Tensor probabilities(c10::IntArrayRef sizes) {
  return at::softmax(parameter(sizes).detach() * 2, sizes.size() == 1 ? 0 : 1).set_requires_grad(true);
}

at::Tensor weights(int64_t count) {
  return at::arange(count, at::kDouble) * 0.25 + 0.5;
}

void expect_as_torch(const Values& inputs, const Options& options) {
  SCOPED_TRACE(c10::str(
      "reduction ", options.reduction, ", ignore_index ", options.ignore_index, ", smoothing ",
      options.label_smoothing));
  expect_as_plain(inputs, [&](const Values& in) -> Values {
    const auto loss = loss_of(in, options);
    run_backward(loss);
    return {loss, in[0].grad(), in[1].grad()};
  });
}

TEST(CrossEntropy, AllOptionsGiveWhatASingleDeviceGivesUnderEveryLayout) {
  for (const auto& options : all_options({-100, 2})) {
    expect_as_torch({parameter({4, 5}), classes({4}, 5)}, options);
    expect_as_torch({parameter({4, 5}), classes({4}, 5), weights(5)}, options);
  }
}

TEST(CrossEntropy, LogitsMayHaveOneDimOrMoreThanTwo) {
  for (const auto& options : all_options({-100, 3})) {
    expect_as_torch({parameter({5}), classes({}, 5)}, options);
    expect_as_torch({parameter({2, 4, 3}), classes({2, 3}, 4)}, options);
    expect_as_torch({parameter({2, 3, 2, 2}), classes({2, 2, 2}, 3), weights(3)}, options);
  }
}

TEST(CrossEntropy, TargetsMayBeProbabilitiesWhichHaveAGradientToo) {
  for (const auto& options : all_options({-100})) {
    expect_as_torch({parameter({3, 5}), probabilities({3, 5})}, options);
    expect_as_torch({parameter({3, 5}), probabilities({3, 5}), weights(5)}, options);
    expect_as_torch({parameter({5}), probabilities({5})}, options);
    expect_as_torch({parameter({2, 4, 3}), probabilities({2, 4, 3})}, options);
  }
}

/// Tests on a mesh of this shape, with this layout of the logits and rows that are sharded as the logits are.
void expect_on_mesh(
    const std::vector<int64_t>& shape,
    const Layout& layout,
    const Layout& rows,
    const Values& inputs,
    const Options& options) {
  const auto plain = inputs[0].detach().clone().set_requires_grad(true);
  const auto expected = loss_of({plain, inputs[1], inputs[2]}, options);
  run_backward(expected);
  on_mesh(shape, [&](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(inputs[0].detach(), mesh, layout).set_requires_grad(true);
    const auto target = distribute_tensor(inputs[1], mesh, rows);
    const auto weight = distribute_tensor(inputs[2], mesh, Layout(Placements(mesh.ndim(), Replicate())));
    const auto loss = loss_of({logits, target, weight}, options);
    run_backward(loss);
    EXPECT_TRUE(at::allclose(full_tensor(loss.detach()), expected.detach(), 1e-9, 1e-9));
    EXPECT_TRUE(at::allclose(full_tensor(logits.grad()), plain.grad(), 1e-9, 1e-9));
    EXPECT_EQ(spec_of(logits.grad())->layout(), layout);
  });
}

TEST(CrossEntropy, ClassesMayBeShardedUnevenlyAndOverMoreRanksThanClasses) {
  for (const auto& options : all_options({1})) {
    for (const int64_t count : {2, 5, 7}) {
      const Values inputs = {parameter({5, count}), classes({5}, count), weights(count)};
      expect_on_mesh({4}, {Shard(1)}, {Replicate()}, inputs, options);
      expect_on_mesh({2, 2}, {Shard(1), Shard(1)}, {Replicate(), Replicate()}, inputs, options);
      expect_on_mesh({2, 2}, {Shard(0), Shard(1)}, {Shard(0), Replicate()}, inputs, options);
      expect_on_mesh({3, 2}, {Shard(1), Shard(0)}, {Replicate(), Shard(0)}, inputs, options);
    }
  }
  const Values one_row = {parameter({1, 5}), classes({1}, 5), weights(5)};
  expect_on_mesh({2, 2}, {Shard(0), Shard(1)}, {Shard(0), Replicate()}, one_row, {});
}

TEST(CrossEntropy, ClassesMayBeShardedInAnyShardOrderAndStrided) {
  const Values inputs = {parameter({4, 8}), classes({4}, 8), weights(8)};
  const Layout replicated = {Replicate(), Replicate()};
  expect_on_mesh({2, 2}, Layout::parse("{S(1)[1], S(1)[0]}"), replicated, inputs, {});
  const auto plain = inputs[0].detach().clone().set_requires_grad(true);
  const auto expected = loss_of({plain, inputs[1]}, {});
  expected.backward();
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(inputs[0].detach(), mesh, {StridedShard(1, 2)}).set_requires_grad(true);
    const auto loss = loss_of({logits, distribute_tensor(inputs[1], mesh, {Replicate()})}, {});
    loss.backward();
    EXPECT_TRUE(at::allclose(full_tensor(loss.detach()), expected.detach()));
    EXPECT_TRUE(at::allclose(full_tensor(logits.grad()), plain.grad()));
  });
}

TEST(CrossEntropy, RowsMayComeOfAFlattenedBatch) {
  const auto global = parameter({4, 3, 6});
  const auto tokens = classes({4, 3}, 6);
  const auto plain = global.detach().clone().set_requires_grad(true);
  const auto expected = at::cross_entropy_loss(plain.flatten(0, 1), tokens.flatten());
  expected.backward();
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(global.detach(), mesh, {Shard(0), Shard(2)}).set_requires_grad(true);
    const auto target = distribute_tensor(tokens, mesh, {Shard(0), Replicate()});
    const CommLog log(mesh);
    const auto loss = at::cross_entropy_loss(logits.flatten(0, 1), target.flatten());
    loss.backward();
    EXPECT_EQ(log.calls(), 3) << log.to_string();
    EXPECT_TRUE(at::allclose(full_tensor(loss.detach()), expected.detach()));
    EXPECT_TRUE(at::allclose(full_tensor(logits.grad()), plain.grad()));
    EXPECT_EQ(spec_of(logits.grad())->layout(), (Layout{Shard(0), Shard(2)}));
  });
}

/// Counts calls and bytes, for 12 rows on every rank and classes sharded over two ranks.
TEST(CrossEntropy, TwoReductionsOfRowsForwardAndNothingBackward) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(parameter({24, 10}, at::kFloat).detach(), mesh, {Shard(0), Shard(1)});
    logits.set_requires_grad(true);
    const auto target = distribute_tensor(classes({24}, 10), mesh, {Shard(0), Replicate()});
    for (const int64_t reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
      for (const double smoothing : {0.0, 0.1}) {
        CommLog log(mesh);
        const auto loss = loss_of({logits, target}, {.reduction = reduction, .label_smoothing = smoothing});
        const int64_t per_row = 12 * (smoothing > 0 ? 4 : 3) * 4;
        const int64_t once = (reduction == at::Reduction::Mean ? 3 : reduction == at::Reduction::Sum ? 2 : 1) * 4;
        EXPECT_EQ(
            log.to_string(),
            c10::str(
                "all_reduce a aten::cross_entropy_loss 1 calls ", once, " bytes\n",
                "all_reduce b aten::cross_entropy_loss 2 calls ", per_row, " bytes\n"));
        EXPECT_EQ(
            spec_of(loss)->layout(),
            reduction == at::Reduction::None ? (Layout{Shard(0), Replicate()}) : (Layout{Replicate(), Replicate()}));
        log.clear();
        const auto ones = at::ones_like(loss);
        const auto gradient = torch::autograd::grad({loss}, {logits}, {ones})[0];
        EXPECT_EQ(log.calls(), 0) << log.to_string();
        EXPECT_EQ(spec_of(gradient)->layout(), (Layout{Shard(0), Shard(1)}));
      }
    }
  });
}

TEST(CrossEntropy, PartialLogitsAreReducedIntoShards) {
  const auto global = parameter({4, 6});
  const auto expected = at::cross_entropy_loss(global.detach(), classes({4}, 6));
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto logits = from_local(global.detach() / 2, mesh, {Partial()});
    const auto target = distribute_tensor(classes({4}, 6), mesh, {Replicate()});
    const CommLog log(mesh);
    const auto loss = at::cross_entropy_loss(logits, target);
    EXPECT_EQ(log.calls(), 3) << log.to_string();
    expect_contains(log.to_string(), "reduce_scatter a aten::cross_entropy_loss 1 calls");
    EXPECT_TRUE(at::allclose(full_tensor(loss), expected));
  });
}

TEST(CrossEntropy, WhereAllRowsAreIgnoredTheMeanIsNotANumberAndTheGradientZero) {
  const auto options = Options{.ignore_index = 1};
  for (const double smoothing : {0.0, 0.2}) {
    on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
      const auto logits = distribute_tensor(parameter({4, 5}).detach(), mesh, {Shard(0), Shard(1)});
      logits.set_requires_grad(true);
      const auto target = distribute_tensor(at::ones({4}, at::kLong), mesh, {Shard(0), Replicate()});
      const auto loss = loss_of({logits, target}, {.ignore_index = options.ignore_index, .label_smoothing = smoothing});
      loss.backward();
      EXPECT_TRUE(std::isnan(full_tensor(loss.detach()).item<double>()));
      expect_equal(full_tensor(logits.grad()), at::zeros({4, 5}, at::kDouble));
    });
  }
}

TEST(CrossEntropy, RowsOfOneSliceAloneMayBeIgnored) {
  const auto target = at::tensor({1, 1, 3, 4}, at::kLong);
  const Values inputs = {parameter({4, 5}), target, weights(5)};
  for (const auto& options : all_options({1})) {
    expect_on_mesh({2, 2}, {Shard(0), Shard(1)}, {Shard(0), Replicate()}, inputs, options);
  }
}

TEST(CrossEntropy, GreatLogitsStayFinite) {
  const auto global =
      at::tensor({1000.0, -1000.0, 0.0, 998.0, -5000.0, -5001.0, -4999.0, -5002.0}, at::kDouble).view({2, 4});
  const Values inputs = {global, classes({2}, 4), weights(4)};
  for (const auto& options : all_options({-100})) {
    expect_on_mesh({2}, {Shard(1)}, {Replicate()}, inputs, options);
  }
}

TEST(CrossEntropy, AMaskedClassAddsNothing) {
  auto global = parameter({3, 4}).detach();
  global.select(1, 3).fill_(-std::numeric_limits<double>::infinity());
  global.select(1, 2).fill_(-std::numeric_limits<double>::infinity());
  expect_on_mesh({2}, {Shard(1)}, {Replicate()}, {global, at::tensor({0, 1, 1}, at::kLong), weights(4)}, {});
}

/// Sums are computed in float; only the loss is rounded, once.
TEST(CrossEntropy, NarrowLogitsAreAddedUpInFloat) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (const double smoothing : {0.0, 0.1}) {
      const auto global = parameter({6, 40}).detach().mul(4).to(dtype);
      const auto plain = global.to(at::kFloat).set_requires_grad(true);
      const auto expected = loss_of({plain, classes({6}, 40)}, {.label_smoothing = smoothing});
      expected.backward();
      on_mesh({2}, [&](const DeviceMesh& mesh) {
        const auto logits = distribute_tensor(global, mesh, {Shard(1)}).set_requires_grad(true);
        const auto target = distribute_tensor(classes({6}, 40), mesh, {Replicate()});
        const auto loss = loss_of({logits, target}, {.label_smoothing = smoothing});
        loss.backward();
        expect_equal(full_tensor(loss.detach()), expected.detach().to(dtype));
        EXPECT_EQ(logits.grad().scalar_type(), dtype);
        EXPECT_TRUE(at::allclose(full_tensor(logits.grad()), plain.grad().to(dtype), 1e-2, 1e-6));
      });
    }
  }
}

TEST(CrossEntropy, AutocastMakesTheLossFloat) {
  const auto global = parameter({6, 8}).detach().to(at::kBFloat16);
  const auto expected = at::cross_entropy_loss(global.to(at::kFloat), classes({6}, 8));
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(global, mesh, {Shard(1)}).set_requires_grad(true);
    const auto target = distribute_tensor(classes({6}, 8), mesh, {Replicate()});
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const auto loss = at::cross_entropy_loss(logits, target);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(full_tensor(loss.detach()), expected));
    loss.backward();
    EXPECT_EQ(logits.grad().scalar_type(), at::kBFloat16);
  });
}

TEST(CrossEntropy, ATargetThatIsNoClassRaisesOnEveryRankAlike) {
  for (const int64_t reduction : {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum}) {
    on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
      const auto logits = distribute_tensor(parameter({4, 5}).detach(), mesh, {Shard(0), Shard(1)});
      const auto target = distribute_tensor(at::tensor({0, 4, 5, -1}, at::kLong), mesh, {Shard(0), Replicate()});
      EXPECT_EQ(
          error_text<c10::IndexError>([&] { loss_of({logits, target}, {.reduction = reduction}); }),
          "[aten::cross_entropy_loss] targets must be classes from 0 to 4 or ignore_index (-100), but 2 of them are "
          "neither (logits f64[4,5] @ mesh(a=2,b=2) {S(0), S(1)}).");
      const auto options = Options{.reduction = reduction, .ignore_index = -1};
      EXPECT_EQ(
          error_text<c10::IndexError>([&] { loss_of({logits, target}, options); }),
          "[aten::cross_entropy_loss] targets must be classes from 0 to 4 or ignore_index (-1), but 1 of them is "
          "neither (logits f64[4,5] @ mesh(a=2,b=2) {S(0), S(1)}).");
    });
  }
}

TEST(CrossEntropy, ArgumentsThatNoDeviceTakesRaiseAsThere) {
  const auto logits = parameter({4, 5});
  const auto error = [&](const Values& inputs, const Options& options = {}) {
    return error_as_plain(inputs, [&](const Values& in) -> Values { return {loss_of(in, options)}; });
  };
  expect_contains(error({logits, classes({3}, 5)}), "batch_size");
  expect_contains(error({logits, classes({4}, 5)}, {.label_smoothing = 1.5}), "label_smoothing");
  expect_contains(error({logits, probabilities({4, 5})}, {.ignore_index = 1}), "ignore_index");
  expect_contains(error({logits, classes({4}, 5), weights(4)}), "weight");
}

TEST(CrossEntropy, APlainTargetRaisesAsWithEveryOperator) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(1)});
    expect_contains(
        error_text<c10::ValueError>([&] { at::cross_entropy_loss(logits, classes({4}, 6)); }),
        "[aten::cross_entropy_loss] distributed and plain tensors cannot be mixed, but argument 'target' is a plain "
        "tensor of shape [4].");
    const ReplicatePlainScope scope;
    EXPECT_TRUE(at::allclose(
        full_tensor(at::cross_entropy_loss(logits, classes({4}, 6), weights(6))),
        at::cross_entropy_loss(parameter({4, 6}).detach(), classes({4}, 6), weights(6))));
  });
}

TEST(CrossEntropy, InAStrictScopeItRaisesAsItCommunicates) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(1)});
    const auto target = distribute_tensor(classes({4}, 6), mesh, {Replicate()});
    const StrictScope scope;
    expect_contains(error_text([&] { at::cross_entropy_loss(logits, target); }), "all_reduce(max) over a");
  });
}

TEST(CrossEntropy, TheGradientHasAGradient) {
  for (const double smoothing : {0.0, 0.2}) {
    expect_as_plain({parameter({4, 5}), classes({4}, 5)}, [&](const Values& in) -> Values {
      const auto loss = loss_of(in, {.label_smoothing = smoothing});
      const auto first = torch::autograd::grad({loss}, {in[0]}, {}, true, /*create_graph=*/true)[0];
      first.pow(2).sum().backward();
      return {first, in[0].grad()};
    });
  }
}

TEST(CrossEntropy, AGradientThatHasAGradientCountsATargetThatWasMadeOfTheLogitsOnce) {
  for (const auto& target : std::vector<std::function<at::Tensor(const at::Tensor&)>>{
           [](const at::Tensor& x) { return x.softmax(-1); }, [](const at::Tensor& x) { return x; }}) {
    expect_as_plain({parameter({3, 4})}, [&](const Values& in) -> Values {
      const auto loss = loss_of({in[0], target(in[0])}, {});
      const auto first = torch::autograd::grad({loss}, {in[0]}, {}, true, /*create_graph=*/true)[0];
      first.pow(2).sum().backward();
      return {first, in[0].grad()};
    });
  }
}

} // namespace cross_entropy_test

} // namespace weft::nn
