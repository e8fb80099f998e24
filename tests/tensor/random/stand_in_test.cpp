#include "weft/tensor/random/stand_in.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/initialization_scope.h"

#include <gtest/gtest.h>
#include <torch/nn/init.h>

namespace weft {

namespace stand_in_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)};

/// Runs `fn` on a plain tensor and on distributed ones of all layouts, and compares.
void expect_as_on_one_device(c10::IntArrayRef sizes, const std::function<void(at::Tensor)>& fn, bool silently) {
  const auto global = whole_numbers(sizes);
  {
    const InitializationScope scope(2);
    fn(global);
  }
  on_all_layouts(static_cast<int64_t>(sizes.size()), kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto tensor = distribute_tensor(whole_numbers(sizes), mesh, layout);
    const CommLog log(mesh);
    {
      const InitializationScope scope(2);
      fn(tensor);
    }
    EXPECT_TRUE(!silently || log.calls() == 0);
    expect_equal(to_local(tensor), part_of(global, mesh, layout));
  });
}

TEST(StandIns, ViewsAlongShardedDimsAreFilledWithoutCommunication) {
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t[3].fill_(7); }, true);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t.select(1, 2).zero_(); }, true);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t.slice(0, 1, 4).uniform_(); }, true);
  expect_as_on_one_device({5, 40}, [](at::Tensor t) { t.slice(0, 1, 4).normal_(); }, true);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t.slice(1, 0, 3).normal_(); }, true);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t.t().slice(0, 1, 3).uniform_(); }, true);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t[1][2].fill_(9); }, true);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t[4].copy_(at::arange(4)); }, true);
  expect_as_on_one_device({4, 6}, [](at::Tensor t) { t.view({-1}).uniform_(); }, true);
  expect_as_on_one_device({4, 6}, [](at::Tensor t) { t.view({2, 2, 6}).select(1, 0).zero_(); }, true);
}

TEST(StandIns, ShapesAreAskedWithoutCommunication) {
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { EXPECT_EQ(t[0].numel(), 4); }, true);
  expect_as_on_one_device({5, 4, 3}, [](at::Tensor t) { torch::nn::init::kaiming_uniform_(t); }, true);
}

TEST(StandIns, WhatIsReadIsRead) {
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t[3].mul_(2); }, false);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t[3].copy_(t[0]); }, false);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t[3].copy_(t[0] + 1); }, false);
  expect_as_on_one_device({5, 4}, [](at::Tensor t) { t.add_(t[2].clone()); }, false);
  expect_as_on_one_device(
      {5, 4},
      [](at::Tensor t) {
        const auto row = t[2];
        t.fill_(3);
        t[4].copy_(row);
      },
      false);
}

TEST(StandIns, InitialisersThatWriteToViews) {
  expect_as_on_one_device({5, 4, 3}, [](at::Tensor t) { torch::nn::init::dirac_(t); }, true);
}

TEST(StandIns, AnIndexThatIsNoneIsAnErrorAsEver) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = weft::zeros({4, 2}, mesh, {Shard(0)});
    const InitializationScope scope(2);
    expect_contains(error_text<c10::IndexError>([&] { tensor.select(0, 9); }), "index 9 out of range");
  });
}

} // namespace stand_in_test

} // namespace weft
