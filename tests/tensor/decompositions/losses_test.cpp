#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace losses_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

constexpr int64_t kMean = at::Reduction::Mean;
constexpr int64_t kSum = at::Reduction::Sum;
constexpr int64_t kNone = at::Reduction::None;

/// Every layout of a prediction and of its target: values and the gradient of the prediction.
void expect_loss(const Values& inputs, const std::function<at::Tensor(const Values&)>& loss) {
  expect_as_plain(inputs, [&](const Values& in) -> Values {
    const auto value = loss(in);
    (value * value).sum().backward();
    return {value, in[0].grad()};
  });
}

TEST(Losses, AMeanOverAShardedBatchIsThatOfTheGlobalBatch) {
  const auto target = parameter({5, 3}).detach().cos();
  for (const int64_t reduction : {kMean, kSum, kNone}) {
    SCOPED_TRACE(reduction);
    const Values inputs = {parameter({5, 3}), target};
    expect_loss(inputs, [&](const Values& in) { return at::mse_loss(in[0], in[1], reduction); });
    expect_loss(inputs, [&](const Values& in) { return at::l1_loss(in[0], in[1], reduction); });
    expect_loss(inputs, [&](const Values& in) { return at::smooth_l1_loss(in[0], in[1], reduction, 0.5); });
    expect_loss(inputs, [&](const Values& in) { return at::huber_loss(in[0], in[1], reduction, 0.5); });
    expect_loss(inputs, [&](const Values& in) { return at::soft_margin_loss(in[0], in[1].sign(), reduction); });
    expect_loss(inputs, [&](const Values& in) {
      return at::binary_cross_entropy(in[0].sigmoid(), in[1].sigmoid(), {}, reduction);
    });
    expect_loss(inputs, [&](const Values& in) {
      return at::binary_cross_entropy_with_logits(in[0], in[1].sigmoid(), {}, {}, reduction);
    });
  }
}

TEST(Losses, BinaryCrossEntropyTakesWeights) {
  const Values inputs = {parameter({5, 3}), parameter({5, 3}).detach().cos(), parameter({3}).detach().square()};
  expect_loss(inputs, [](const Values& in) {
    return at::binary_cross_entropy(in[0].sigmoid(), in[1].sigmoid(), in[2].expand({5, 3}), kMean);
  });
  expect_loss(inputs, [](const Values& in) {
    return at::binary_cross_entropy_with_logits(in[0], in[1].sigmoid(), {}, in[2], kMean);
  });
}

TEST(Losses, AMeanOfPartialValuesIsThatOfTheirSum) {
  const auto global = whole_numbers({5, 3}, at::kDouble);
  const auto target = global * 2 + 1;
  const auto expected = at::mse_loss(global, target);
  on_all_layouts(2, {Replicate(), Shard(0), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto x = from_local(part_of(global, mesh, layout), mesh, layout, global.sizes());
    const auto y = distribute_tensor(target, mesh, Layout(Placements(mesh.ndim(), Shard(1))));
    EXPECT_NEAR(full_tensor(at::mse_loss(x, y)).item<double>(), expected.item<double>(), 1e-9);
  });
}

TEST(Losses, AMeanCountsWhatIsBroadcast) {
  expect_as_plain({parameter({4, 1}).detach(), parameter({4, 3}).detach()}, [](const Values& in) -> Values {
    return {at::mse_loss(in[0], in[1]), at::smooth_l1_loss(in[0], in[1]), at::huber_loss(in[0], in[1])};
  });
}

/// Uneven shards on two ranks; the second rank's targets are mostly ignored.
const std::vector<int64_t> kTargets = {2, 0, 3, 1, 1};

TEST(NllLoss, AMeanOverAShardedBatchIsThatOfTheGlobalBatch) {
  const auto target = at::tensor(kTargets, at::kLong);
  expect_loss({parameter({5, 4}), target}, [](const Values& in) {
    return at::nll_loss(in[0].log_softmax(1), in[1], {}, kMean);
  });
  expect_loss({parameter({5, 4}), target}, [](const Values& in) { return at::cross_entropy_loss(in[0], in[1]); });
}

TEST(NllLoss, IgnoredTargetsAndWeightsCountAsOnASingleDevice) {
  const auto target = at::tensor(kTargets, at::kLong);
  const auto weight = at::tensor({0.5, 2.0, 1.5, 0.25}, at::kDouble);
  for (const int64_t reduction : {kMean, kSum, kNone}) {
    SCOPED_TRACE(reduction);
    expect_loss({parameter({5, 4}), target}, [&](const Values& in) {
      return at::nll_loss(in[0].log_softmax(1), in[1], {}, reduction, /*ignore_index=*/1);
    });
    expect_loss({parameter({5, 4}), target, weight}, [&](const Values& in) {
      return at::nll_loss(in[0].log_softmax(1), in[1], in[2], reduction, /*ignore_index=*/0);
    });
  }
}

TEST(NllLoss, LabelsMayBeSmoothed) {
  const auto target = at::tensor(kTargets, at::kLong);
  const auto weight = at::tensor({0.5, 2.0, 1.5, 0.25}, at::kDouble);
  for (const int64_t reduction : {kMean, kSum, kNone}) {
    SCOPED_TRACE(reduction);
    expect_loss({parameter({5, 4}), target, weight}, [&](const Values& in) {
      return at::cross_entropy_loss(in[0], in[1], in[2], reduction, /*ignore_index=*/1, /*label_smoothing=*/0.1);
    });
  }
}

TEST(NllLoss, OfImagesAsWell) {
  const auto target = at::arange(2 * 3 * 5, at::kLong).remainder(4).view({2, 3, 5});
  expect_loss({parameter({2, 4, 3, 5}), target}, [&](const Values& in) {
    return at::nll_loss2d(in[0].log_softmax(1), in[1], {}, kMean, /*ignore_index=*/2);
  });
}

TEST(NllLoss, WhereEveryTargetIsIgnoredItIsNotANumber) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4, 3}), mesh, {Shard(0)});
    const auto target = distribute_tensor(at::ones({4}, at::kLong), mesh, {Shard(0)});
    EXPECT_TRUE(full_tensor(at::nll_loss(x, target, {}, kMean, 1)).isnan().item<bool>());
  });
}

TEST(NllLoss, IsEqualOnAllRanks) {
  std::vector<double> losses(3);
  run_on_ranks(3, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {3}, {"dp"});
    const auto logits = distribute_tensor(parameter({7, 4}, at::kFloat).detach(), mesh, {Shard(0)});
    const auto target = distribute_tensor(at::arange(7, at::kLong).remainder(4), mesh, {Shard(0)});
    losses[rank] = full_tensor(at::cross_entropy_loss(logits, target)).item<double>();
  });
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

TEST(NllLoss, MovesNumbersAndNotTheBatch) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto logits = distribute_tensor(at::ones({64, 32}), mesh, {Shard(0)});
    const auto target = distribute_tensor(at::ones({64}, at::kLong), mesh, {Shard(0)});
    const CommLog log(mesh);
    full_tensor(at::cross_entropy_loss(logits, target));
    EXPECT_LE(log.calls(), 2) << log.to_string();
    EXPECT_LE(log.bytes(), 64) << log.to_string();
  });
}

TEST(Losses, AMarginLossOverAShardedBatchIsThatOfTheGlobalBatch) {
  for (const int64_t reduction : {kMean, kSum, kNone}) {
    SCOPED_TRACE(reduction);
    const Values rows = {parameter({5, 3}), at::arange(5).remainder(3)};
    expect_loss(rows, [&](const Values& in) { return at::multi_margin_loss(in[0], in[1], 1, 1, {}, reduction); });
    const Values labels = {parameter({5, 3}), at::arange(15).remainder(4).sub(1).view({5, 3})};
    expect_loss(labels, [&](const Values& in) { return at::multilabel_margin_loss(in[0], in[1], reduction); });
  }
}

} // namespace losses_test

} // namespace weft
