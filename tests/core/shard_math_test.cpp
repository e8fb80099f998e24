#include "weft/core/shard_math.h"

#include "weft/core/device_mesh.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace weft {

namespace shard_math_test {
using Ints = std::vector<int64_t>;

constexpr int64_t kLargestSize = 17;

/// A layout on a mesh, and the mesh dims in the order in which they shard.
struct Case {
  Ints mesh_shape;
  Layout layout;
  Ints shard_order;

  std::string text() const {
    return c10::str(layout.to_string(), " on ", c10::IntArrayRef(mesh_shape));
  }
};

/// Every combination of the placements on the mesh dims, in every shard order.
std::vector<Case> combinations(const Ints& mesh_shape, const std::vector<Placement>& choices) {
  std::vector<Case> result;
  std::set<std::string> seen;
  const auto ndim = mesh_shape.size();
  Ints chosen(ndim, 0);
  do {
    Placements placements;
    for (const auto choice : chosen) {
      placements.push_back(choices[choice]);
    }
    Ints order(ndim);
    std::iota(order.begin(), order.end(), 0);
    do {
      Ints positions(ndim, 0);
      std::map<int64_t, int64_t> shards;
      for (const auto m : order) {
        positions[m] = placements[m].is_shard() ? shards[placements[m].dim()]++ : 0;
      }
      const Layout layout(placements, positions);
      if (seen.insert(layout.to_string()).second) {
        result.push_back({mesh_shape, layout, order});
      }
    } while (std::next_permutation(order.begin(), order.end()));
    size_t m = 0;
    while (m < ndim && ++chosen[m] == static_cast<int64_t>(choices.size())) {
      chosen[m++] = 0;
    }
    if (m == ndim) {
      return result;
    }
  } while (true);
}

const std::vector<Case>& one_dim_cases() {
  static const auto cases = [] {
    std::vector<Case> result;
    const std::vector<Placement> choices = {Replicate(),        Shard(0),           StridedShard(0, 2),
                                            StridedShard(0, 3), StridedShard(0, 4), StridedShard(0, {3, 1, 2})};
    for (const auto& mesh_shape : {Ints{2}, Ints{3}, Ints{4}, Ints{2, 2}, Ints{2, 3}, Ints{3, 2}}) {
      const auto some = combinations(mesh_shape, choices);
      result.insert(result.end(), some.begin(), some.end());
    }
    // Ragged shards with an empty member, more rows than there may be, and fewer.
    for (const auto& lengths : {Ints{3, 0}, Ints{0, 5}, Ints{9, 40}}) {
      const auto ragged = combinations({2}, {RaggedShard(0, lengths)});
      const auto with_others = combinations({2, 2}, {Shard(0), StridedShard(0, 2), RaggedShard(0, lengths)});
      result.insert(result.end(), ragged.begin(), ragged.end());
      result.insert(result.end(), with_others.begin(), with_others.end());
    }
    const auto three = combinations({2, 2, 2}, {Shard(0), StridedShard(0, 2)});
    result.insert(result.end(), three.begin(), three.end());
    return result;
  }();
  return cases;
}

std::vector<Ints> coordinates(const Ints& mesh_shape) {
  std::vector<Ints> result = {{}};
  for (const auto size : mesh_shape) {
    std::vector<Ints> longer;
    for (const auto& start : result) {
      for (int64_t i = 0; i < size; ++i) {
        longer.push_back(start);
        longer.back().push_back(i);
      }
    }
    result = std::move(longer);
  }
  return result;
}

/// torch.chunk leaves out empty chunks; here they are added at the end.
std::vector<at::Tensor> chunks(const at::Tensor& tensor, int64_t count, int64_t dim) {
  auto result = at::chunk(tensor, count, dim);
  while (static_cast<int64_t>(result.size()) < count) {
    result.push_back(tensor.slice(dim, tensor.size(dim)));
  }
  return result;
}

/// Unequal blocks end at the parts of the dim that their sizes say, rounded down.
std::vector<at::Tensor> blocks_of(const at::Tensor& tensor, const Placement& placement) {
  if (!placement.has_unequal_blocks()) {
    return chunks(tensor, placement.split_factor(), placement.dim());
  }
  const auto sizes = placement.block_sizes();
  const auto all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<at::Tensor> result;
  int64_t passed = 0;
  for (const auto size : sizes) {
    const auto begin = tensor.size(placement.dim()) * passed / all;
    passed += size;
    result.push_back(tensor.slice(placement.dim(), begin, tensor.size(placement.dim()) * passed / all));
  }
  return result;
}

/// Members take their lengths one after the other, as long as there is something left, and the last one the rest.
std::vector<at::Tensor> ragged(at::Tensor tensor, const Placement& placement) {
  std::vector<at::Tensor> result;
  for (const auto length : placement.lengths()) {
    const auto taken = std::min(length, tensor.size(placement.dim()));
    const bool is_last = result.size() + 1 == placement.lengths().size();
    result.push_back(is_last ? tensor : tensor.narrow(placement.dim(), 0, taken));
    tensor = tensor.slice(placement.dim(), taken);
  }
  return result;
}

/// The definition of sharding: the local tensor of a rank, sharded one mesh dim after the other.
at::Tensor shard_step_by_step(at::Tensor tensor, const Case& c, const Ints& coordinate) {
  for (const auto m : c.shard_order) {
    const auto& placement = c.layout[m];
    if (!placement.is_shard()) {
      continue;
    }
    if (placement.is_ragged()) {
      tensor = ragged(tensor, placement)[coordinate[m]];
      continue;
    }
    std::vector<at::Tensor> held;
    for (const auto& outer : blocks_of(tensor, placement)) {
      held.push_back(chunks(outer, c.mesh_shape[m], placement.dim())[coordinate[m]]);
    }
    tensor = held.size() == 1 ? held[0] : at::cat(held, placement.dim());
  }
  return tensor;
}

Ints values(const at::Tensor& tensor) {
  const auto flat = tensor.contiguous();
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

Ints indices(const Runs& runs) {
  Ints result;
  for (const auto& run : runs) {
    for (int64_t i = 0; i < run.length; ++i) {
      result.push_back(run.begin + i);
    }
  }
  return result;
}

bool has_strided_shard(const Layout& layout) {
  const auto placements = layout.placements();
  return std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return p.is_strided(); });
}

TEST(ShardMath, NoRankHoldsMoreThanTheLargestLocalShape) {
  const Layout layout = {Shard(0), StridedShard(0, 2)};
  const std::vector<int64_t> mesh_shape = {2, 3};
  for (int64_t size = 0; size < 20; ++size) {
    int64_t most = 0;
    for (int64_t i = 0; i < 6; ++i) {
      most = std::max(most, local_shape_and_offset({size}, layout, mesh_shape, coordinate_at(i, mesh_shape)).shape[0]);
    }
    EXPECT_EQ(largest_local_shape({size}, layout, mesh_shape), c10::DimVector({most})) << size;
  }
}

TEST(ShardMath, TheLargestRaggedShardMayBeThatOfAnyMember) {
  const Layout layout({RaggedShard(0, {1, 5, 0}), Shard(0)}, {1, 0});
  for (const auto& [size, most] : {std::pair{12, 5}, {4, 1}, {6, 2}, {40, 14}}) {
    EXPECT_EQ(largest_local_shape({size, 3}, layout, {3, 2}), (c10::DimVector{most, 3})) << size;
  }
}

TEST(ShardMath, LocalRunsEqualShardingStepByStep) {
  ASSERT_EQ(one_dim_cases().size(), 3 * 6 + 3 * (6 * 6 + 5 * 5) + 3 * (1 + 2 * 3 * 3) + 8 * 6);
  for (int64_t size = 0; size <= kLargestSize; ++size) {
    const auto global = at::arange(size, at::kLong);
    for (const auto& c : one_dim_cases()) {
      for (const auto& coordinate : coordinates(c.mesh_shape)) {
        const auto expected = values(shard_step_by_step(global, c, coordinate));
        const auto runs = local_runs(size, 0, c.layout, c.mesh_shape, coordinate);
        ASSERT_EQ(indices(runs), expected) << c.text() << " size " << size << " at " << coordinate;

        const auto block = local_shape_and_offset({size}, c.layout, c.mesh_shape, coordinate);
        ASSERT_EQ(block.shape, c10::DimVector{static_cast<int64_t>(expected.size())}) << c.text() << " size " << size;
        ASSERT_EQ(block.offset, c10::DimVector{expected.empty() ? runs[0].begin : expected[0]})
            << c.text() << " size " << size;
      }
    }
  }
}

TEST(ShardMath, RunsAreAsFewAsPossibleAndInsideTheTensor) {
  for (int64_t size = 0; size <= kLargestSize; ++size) {
    for (const auto& c : one_dim_cases()) {
      for (const auto& coordinate : coordinates(c.mesh_shape)) {
        const auto runs = local_runs(size, 0, c.layout, c.mesh_shape, coordinate);
        ASSERT_FALSE(runs.empty()) << c.text() << " size " << size;
        ASSERT_TRUE(has_strided_shard(c.layout) || runs.size() == 1) << c.text() << " size " << size;
        for (size_t i = 0; i < runs.size(); ++i) {
          ASSERT_TRUE(runs[i].length > 0 || runs.size() == 1) << c.text() << " size " << size;
          ASSERT_TRUE(runs[i].begin >= 0 && runs[i].begin + runs[i].length <= size) << c.text() << " size " << size;
          ASSERT_TRUE(i == 0 || runs[i - 1].begin + runs[i - 1].length < runs[i].begin) << c.text() << " size " << size;
        }
      }
    }
  }
}

TEST(ShardMath, AllRanksTogetherHoldEveryIndexOncePerReplica) {
  for (int64_t size = 0; size <= kLargestSize; ++size) {
    for (const auto& c : one_dim_cases()) {
      int64_t replicas = 1;
      for (int64_t m = 0; m < c.layout.ndim(); ++m) {
        replicas *= c.layout[m].is_replicate() ? c.mesh_shape[m] : 1;
      }
      Ints holders(size, 0);
      for (const auto& coordinate : coordinates(c.mesh_shape)) {
        for (const auto index : indices(local_runs(size, 0, c.layout, c.mesh_shape, coordinate))) {
          ++holders.at(index);
        }
      }
      ASSERT_EQ(holders, Ints(size, replicas)) << c.text() << " size " << size;
    }
  }
}

TEST(ShardMath, IntersectionIsExactlyTheCommonIndicesInTheOrderWanted) {
  for (int64_t size = 0; size <= kLargestSize; ++size) {
    std::map<Ints, Runs> shards;
    for (const auto& c : one_dim_cases()) {
      for (const auto& coordinate : coordinates(c.mesh_shape)) {
        const auto runs = local_runs(size, 0, c.layout, c.mesh_shape, coordinate);
        shards.emplace(indices(runs), runs);
      }
    }
    for (const auto& [held, held_runs] : shards) {
      Ints position_held(size, -1);
      for (size_t i = 0; i < held.size(); ++i) {
        position_held[held[i]] = static_cast<int64_t>(i);
      }
      for (const auto& [wanted, wanted_runs] : shards) {
        std::vector<std::pair<int64_t, int64_t>> expected;
        for (size_t i = 0; i < wanted.size(); ++i) {
          if (position_held[wanted[i]] >= 0) {
            expected.emplace_back(position_held[wanted[i]], i);
          }
        }
        std::vector<std::pair<int64_t, int64_t>> common;
        for (const auto& range : intersect(held_runs, wanted_runs)) {
          ASSERT_GT(range.length, 0);
          for (int64_t i = 0; i < range.length; ++i) {
            common.emplace_back(range.held_begin + i, range.wanted_begin + i);
          }
        }
        ASSERT_EQ(common, expected) << c10::IntArrayRef(held) << " and " << c10::IntArrayRef(wanted);
      }
    }
  }
}

TEST(ShardMath, IntersectionHasOneRangePerCommonRun) {
  const auto ranges = intersect({weft::Run{2, 6}}, {weft::Run{0, 3}, weft::Run{5, 2}, weft::Run{8, 4}});
  ASSERT_EQ(ranges.size(), 2);
  EXPECT_EQ(ranges[0], (Intersection{.held_begin = 0, .wanted_begin = 2, .length = 1}));
  EXPECT_EQ(ranges[1], (Intersection{.held_begin = 3, .wanted_begin = 3, .length = 2}));
}

TEST(ShardMath, BlocksAreDividedIfEveryRankHasAsMuchOfEach) {
  EXPECT_EQ(blocks(24, StridedShard(0, {4, 1, 1})), (Runs{{0, 16}, {16, 4}, {20, 4}}));
  EXPECT_EQ(blocks(7, StridedShard(0, {4, 1, 1})), (Runs{{0, 4}, {4, 1}, {5, 2}}));
  EXPECT_TRUE(divides_blocks(24, 4, StridedShard(0, {4, 1, 1})));
  EXPECT_FALSE(divides_blocks(24, 8, StridedShard(0, {4, 1, 1})));
  EXPECT_FALSE(divides_blocks(25, 1, StridedShard(0, {4, 1, 1})));
  EXPECT_TRUE(divides_blocks(12, 2, StridedShard(0, 3)));
  EXPECT_FALSE(divides_blocks(10, 2, StridedShard(0, 3)));
  EXPECT_TRUE(divides_blocks(6, 3, Shard(0)));
  EXPECT_FALSE(divides_blocks(6, 3, RaggedShard(0, {2, 2, 2})));
}

TEST(ShardMath, ChunkIsTorchChunkAndEmptyChunksBeginAtTheEnd) {
  for (int64_t size = 0; size <= kLargestSize; ++size) {
    for (int64_t count = 1; count <= 6; ++count) {
      const auto expected = chunks(at::arange(size, at::kLong), count, 0);
      const auto full = (size + count - 1) / count;
      for (int64_t index = 0; index < count; ++index) {
        const auto run = chunk(size, count, index);
        EXPECT_EQ(indices({run}), values(expected[index])) << size << " " << count << " " << index;
        EXPECT_EQ(run.begin, std::min(index * full, size)) << size << " " << count << " " << index;
        const auto block = local_shape_and_offset({size}, {Shard(0)}, {count}, {index});
        EXPECT_EQ(block.shape[0], run.length) << size << " " << count << " " << index;
        EXPECT_EQ(block.offset[0], run.begin) << size << " " << count << " " << index;
      }
    }
  }
}

TEST(ShardMath, AnEmptyShardOfSeveralMeshDimsBeginsAtTheEndOfItsOuterShard) {
  const std::vector<std::tuple<int64_t, std::string, Ints, Ints, int64_t>> empty = {
      {1, "{S(0), S(0)}", {2, 2}, {0, 1}, 1},
      {1, "{S(0), S(0)}", {2, 2}, {1, 0}, 1},
      {4, "{S(0), S(0)}", {2, 3}, {0, 2}, 2},
      {4, "{S(0), S(0)}", {2, 3}, {1, 2}, 4},
      {3, "{SS(0,2)}", {4}, {2}, 2},
      {4, "{S(0)[1], S(0)[0]}", {3, 2}, {2, 0}, 2},
      {4, "{SS(0,2), S(0)}", {2, 3}, {0, 2}, 3},
      {0, "{SS(0,3)}", {2}, {1}, 0},
  };
  for (const auto& [size, layout, mesh_shape, coordinate, offset] : empty) {
    const auto runs = local_runs(size, 0, Layout::parse(layout), mesh_shape, coordinate);
    EXPECT_EQ(runs, (Runs{weft::Run{offset, 0}})) << layout << " size " << size << " at " << coordinate;
  }
}

TEST(ShardMath, TwoTensorDimsAreShardedIndependently) {
  const std::vector<Placement> choices = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2), StridedShard(1, 2)};
  for (const auto& mesh_shape : {Ints{2, 2}, Ints{2, 3}, Ints{3, 2}}) {
    for (const auto& c : combinations(mesh_shape, choices)) {
      for (const auto& sizes : {Ints{0, 3}, Ints{1, 1}, Ints{2, 5}, Ints{5, 4}, Ints{7, 6}}) {
        const auto global = at::arange(sizes[0] * sizes[1], at::kLong).view(sizes);
        for (const auto& coordinate : coordinates(mesh_shape)) {
          const auto expected = shard_step_by_step(global, c, coordinate);
          const auto rows = indices(local_runs(sizes[0], 0, c.layout, mesh_shape, coordinate));
          const auto columns = indices(local_runs(sizes[1], 1, c.layout, mesh_shape, coordinate));
          const auto held =
              global.index_select(0, at::tensor(rows, at::kLong)).index_select(1, at::tensor(columns, at::kLong));
          ASSERT_EQ(held.sizes(), expected.sizes()) << c.text() << " sizes " << sizes << " at " << coordinate;
          ASSERT_EQ(values(held), values(expected)) << c.text() << " sizes " << sizes << " at " << coordinate;

          const auto block = local_shape_and_offset(sizes, c.layout, mesh_shape, coordinate);
          ASSERT_EQ(c10::IntArrayRef(block.shape), expected.sizes()) << c.text() << " sizes " << sizes;
          if (expected.numel() > 0) {
            ASSERT_EQ(block.offset, (c10::DimVector{rows[0], columns[0]})) << c.text() << " sizes " << sizes;
          }
        }
      }
    }
  }
}

TEST(ShardMath, UnshardedDimsAreHeldInFull) {
  const auto block = local_shape_and_offset({5, 3}, {Shard(0)}, {4}, {2});
  EXPECT_EQ(block.shape, (c10::DimVector{1, 3}));
  EXPECT_EQ(block.offset, (c10::DimVector{4, 0}));
  const auto scalar = local_shape_and_offset({}, {Partial(), Replicate()}, {2, 2}, {1, 0});
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_TRUE(scalar.offset.empty());
}

} // namespace shard_math_test

} // namespace weft
