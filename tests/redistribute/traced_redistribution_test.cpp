#include "weft/redistribute/traced_redistribution.h"

#include "tests/support/functional_ranks.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

namespace weft {

namespace traced_redistribution_test {
using namespace weft::testing;

/// The recorded operators are run here, on ranks that are threads.
class TracedEveryPair : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(TracedEveryPair, EqualsGatheringAndShardingAgain) {
  const auto& mesh_shape = GetParam();
  const auto ranks = std::accumulate(mesh_shape.begin(), mesh_shape.end(), int64_t{1}, std::multiplies<>());
  const std::vector<std::string> names =
      mesh_shape.size() == 1 ? std::vector<std::string>{"a"} : std::vector<std::string>{"a", "b"};
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 3}, {4, 4}, {1, 2}, {}}) {
    const auto count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    const auto global = (at::arange(count, at::kFloat) - count / 2).view(sizes);
    const auto ndim = static_cast<int64_t>(sizes.size());
    const auto layouts = all_layouts(static_cast<int64_t>(mesh_shape.size()), ndim, all_placements(ndim));
    for (const auto& from : layouts) {
      std::vector<std::vector<at::Tensor>> results(layouts.size(), std::vector<at::Tensor>(ranks));
      run_on_ranks(ranks, [&](int64_t rank) {
        const auto mesh = init_device_mesh("cpu", mesh_shape, names);
        const FunctionalRanks collectives(mesh);
        const auto source = TensorSpec::make(mesh, from, sizes, at::kFloat);
        const auto local = local_by_definition(global, from, mesh.shape(), mesh.coordinate());
        for (size_t b = 0; b < layouts.size(); ++b) {
          if (!is_refused(from, layouts[b])) {
            results[b][rank] = run_traced(plan(source, source->with(layouts[b])), local);
          }
        }
      });
      for (size_t b = 0; b < layouts.size(); ++b) {
        if (is_refused(from, layouts[b])) {
          continue;
        }
        const auto shards_only = without_partial(layouts[b]);
        const auto values = reduce_partials(results[b], layouts[b], mesh_shape);
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const auto expected = local_by_definition(global, shards_only, mesh_shape, coordinate_at(rank, mesh_shape));
          ASSERT_TRUE(values[rank].equal(expected))
              << from << " -> " << layouts[b] << " on rank " << rank << ", shape " << c10::IntArrayRef(sizes);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes,
    TracedEveryPair,
    ::testing::Values(std::vector<int64_t>{2}, std::vector<int64_t>{3}, std::vector<int64_t>{2, 2}));

} // namespace traced_redistribution_test

} // namespace weft
