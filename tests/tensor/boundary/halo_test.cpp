#include "weft/tensor/boundary/halo.h"

#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace halo_test {
using namespace weft::testing;

const SlidingWindow kThree = {.length = 3, .stride = 1, .padding = 1};

at::Tensor values(std::vector<float> numbers) {
  return at::tensor(numbers);
}

TEST(SlidingWindow, KnowsOutputsAndInputs) {
  const SlidingWindow window{.length = 3, .stride = 2, .padding = 1, .dilation = 2};
  EXPECT_EQ(window.outputs_of(9), 4);
  EXPECT_EQ(window.inputs_of({0, 2}), (weft::Run{-1, 7}));
  EXPECT_EQ(window.inputs_of({2, 2}), (weft::Run{3, 7}));
  EXPECT_EQ(window.inputs_of({2, 0}).length, 0);
  EXPECT_EQ((SlidingWindow{.length = 5, .stride = 3}.outputs_of(3)), 0);
}

TEST(Halo, ARankTakesRowsOfItsNeighboursAndZerosAtTheEnds) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, {8}, at::kFloat);
    const Halo halo(spec, {0}, {kThree});
    const CommLog log(mesh);
    const auto window = halo.gathered("test", part_of(at::arange(1, 9, at::kFloat), mesh, spec->layout()));
    EXPECT_EQ(log.calls(), 1);
    expect_equal(window, mesh.rank(0) == 0 ? values({0, 1, 2, 3, 4, 5}) : values({4, 5, 6, 7, 8, 0}));
    EXPECT_EQ(halo.received_share(), 0.25);
  });
}

TEST(Halo, WindowsReachBeyondTheNextRank) {
  on_mesh({4}, [](const DeviceMesh& mesh) {
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, {5}, at::kFloat); // shards of 2, 2, 1 and 0
    const Halo halo(spec, {0}, {{.length = 5, .stride = 1, .padding = 2}});
    const auto window = halo.gathered("test", part_of(at::arange(1, 6, at::kFloat), mesh, spec->layout()));
    const std::vector<std::vector<float>> expected = {{0, 0, 1, 2, 3, 4}, {1, 2, 3, 4, 5, 0}, {3, 4, 5, 0, 0}, {}};
    expect_equal(window, values(expected[mesh.rank(0)]));
  });
}

TEST(Halo, ScatteredIsTheAdjointOfGathered) {
  for (const auto& layout :
       {Layout({Shard(0), Shard(1)}), Layout({Shard(1), Shard(1)}), Layout({Shard(1), Replicate()})}) {
    on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
      const auto global = whole_numbers({7, 9});
      const auto spec = TensorSpec::make(mesh, layout, {7, 9}, at::kFloat);
      MeshDims mesh_dims;
      for (int64_t m = 0; m < 2; ++m) {
        if (layout[m].is_shard()) {
          mesh_dims.push_back(m);
        }
      }
      const Halo halo(spec, mesh_dims, {kThree, {.length = 2, .stride = 2, .padding = 1, .dilation = 3}});
      const auto window = halo.gathered("test", part_of(global, mesh, layout));
      // The sum of what all windows have of an element is the element times the number of windows that have it.
      const auto count = halo.scattered("test", at::ones_like(window));
      expect_equal(halo.scattered("test", window), part_of(global, mesh, layout) * count);
      EXPECT_EQ(window.sizes(), c10::IntArrayRef(halo.window_shape()));
    });
  }
}

} // namespace halo_test
} // namespace weft
