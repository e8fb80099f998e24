#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace slice_backward_test {
using namespace weft::testing;

at::Tensor expected(const at::Tensor& gradient, int64_t size, int64_t start) {
  auto result = at::zeros({size, gradient.size(1)});
  result.narrow(0, start, gradient.size(0)).copy_(gradient);
  return result;
}

TEST(SliceBackward, EveryRankGetsItsShardInOneExchange) {
  for (const int64_t ranks : {2, 3}) {
    for (const int64_t size : {1, 5, 12}) {
      for (int64_t start = 0; start <= size; ++start) {
        for (int64_t end = start; end <= size; ++end) {
          on_mesh({ranks}, [&](const DeviceMesh& mesh) {
            const auto global = whole_numbers({end - start, 3});
            const auto gradient = distribute_tensor(global, mesh, {Shard(0)});
            const CommLog log(mesh);
            const auto result = at::slice_backward(gradient, {size, 3}, 0, start, end, 1);
            EXPECT_LE(log.calls(), 1);
            EXPECT_EQ(spec_of(result)->layout(), Layout({Shard(0)}));
            expect_equal(full_tensor(result), expected(global, size, start));
          });
        }
      }
    }
  }
}

TEST(SliceBackward, OtherMeshDimsKeepTheirPlacements) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    for (const auto& other : {Shard(1), Partial(), Replicate()}) {
      const auto gradient = distribute_tensor(global, mesh, {other, Shard(0)});
      const auto result = at::slice_backward(gradient, {7, 6}, 0, -5, 6, 1);
      EXPECT_EQ(spec_of(result)->layout(), Layout({other, Shard(0)}));
      expect_equal(full_tensor(result), expected(global, 7, 2));
    }
  });
}

TEST(SliceBackward, GoesByTheRuleWhereShardsAreNotShifted) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto by_columns = distribute_tensor(global, mesh, {Shard(1)});
    const CommLog log(mesh);
    const auto result = at::slice_backward(by_columns, {7, 6}, 0, 2, 6, 1);
    EXPECT_EQ(log.calls(), 0);
    expect_equal(full_tensor(result), expected(global, 7, 2));
    auto spread = at::zeros({8, 6});
    spread.slice(0, 1, 8, 2).copy_(global);
    const auto by_rows = distribute_tensor(global, mesh, {Shard(0)});
    expect_equal(full_tensor(at::slice_backward(by_rows, {8, 6}, 0, 1, 8, 2)), spread);
  });
}

TEST(SliceBackward, TheGradientOfASliceOfAShardedLeafNeedsOneCollective) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({8, 16}), mesh, {Shard(1)}).set_requires_grad(true);
    const auto y = x.slice(1, 8);
    const auto gradient = distribute_tensor(whole_numbers({8, 8}), mesh, {Shard(1)});
    const CommLog log(mesh);
    y.backward(gradient);
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    EXPECT_EQ(spec_of(x.grad())->layout(), Layout({Shard(1)}));
    expect_equal(full_tensor(x.grad()).slice(1, 8), whole_numbers({8, 8}));
    EXPECT_EQ(full_tensor(x.grad()).slice(1, 0, 8).abs().sum().item<float>(), 0);
  });
}

} // namespace slice_backward_test
} // namespace weft
