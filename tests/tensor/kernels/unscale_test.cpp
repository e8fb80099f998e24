#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

namespace weft {

namespace unscale_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

/// Whether a value that is not finite was found.
bool unscale(const Values& gradients) {
  auto found = at::zeros({});
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, at::full({}, 0.5));
  return found.item<double>() != 0;
}

TEST(Unscale, EveryRankDividesItsShardAndOneNumberIsReduced) {
  const auto global = whole_numbers({5, 4});
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const Values gradients = {
        distribute_tensor(global, mesh, {Shard(0), Replicate()}),
        distribute_tensor(global, mesh, {Replicate(), Shard(1)})};
    const CommLog log(mesh);
    EXPECT_FALSE(unscale(gradients));
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    for (const auto& gradient : gradients) {
      expect_equal(full_tensor(gradient), global / 2);
    }
  });
}

TEST(Unscale, AnInfinityOfOneRankIsFoundOnAll) {
  auto global = whole_numbers({5, 4});
  global[4][3] = std::numeric_limits<float>::infinity();
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    EXPECT_TRUE(unscale({distribute_tensor(global, mesh, {Shard(0), Shard(1)})}));
    EXPECT_TRUE(unscale({distribute_tensor(global, mesh.submesh({"a"}), {Shard(0)})}));
  });
}

TEST(Unscale, ReplicatedGradientsNeedNoCommunication) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto gradient = distribute_tensor(whole_numbers({3}), mesh, {Replicate()});
    const CommLog log(mesh);
    EXPECT_FALSE(unscale({gradient}));
    EXPECT_EQ(log.calls(), 0);
  });
}

TEST(Unscale, MeshesMayDifferAndPlainGradientsAreAmongThem) {
  const auto global = whole_numbers({4, 4});
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const Values gradients = {
        distribute_tensor(global, mesh.submesh({"a"}), {Shard(0)}),
        distribute_tensor(global, mesh.submesh({"b"}), {Shard(0)}), global.clone()};
    EXPECT_FALSE(unscale(gradients));
    expect_equal(full_tensor(gradients[0]), global / 2);
    expect_equal(full_tensor(gradients[1]), global / 2);
    expect_equal(gradients[2], global / 2);
  });
}

TEST(Unscale, TermsOfASumAreRefused) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto terms = from_local(at::ones({4}), mesh, {Partial()});
    expect_contains(error_text<c10::ValueError>([&] { unscale({terms}); }), "but got the terms of a sum");
  });
}

} // namespace unscale_test
} // namespace weft
