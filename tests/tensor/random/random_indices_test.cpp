#include "weft/tensor/random/random_indices.h"

#include "tests/support/layout_cases.h"
#include "weft/comm/world/fake_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace random_indices_test {
using testing::all_layouts;
using testing::local_by_definition;

LocalIndices indices_of(c10::IntArrayRef sizes, const Layout& layout, const DeviceMesh& mesh) {
  return LocalIndices(*TensorSpec::make(mesh, layout, sizes, at::kFloat));
}

at::Tensor as_tensor(const LocalIndices& indices) {
  return (indices.row_begins(at::kCPU).unsqueeze(1) + indices.within_row(at::kCPU)).flatten();
}

TEST(LocalIndices, OfShardedRowsAreOneRange) {
  const DeviceMesh mesh(make_fake_world(2, 1), c10::kCPU, {2});
  const auto indices = indices_of({6, 4}, {Shard(0)}, mesh);
  EXPECT_EQ(indices.rows(), 1);
  EXPECT_EQ(indices.runs(), (Runs{{12, 12}}));
  EXPECT_EQ(indices.single_range(), 12);
}

TEST(LocalIndices, OfShardedColumnsAreRowsOfTheSameRun) {
  const DeviceMesh mesh(make_fake_world(2, 1), c10::kCPU, {2});
  const auto indices = indices_of({6, 4}, {Shard(1)}, mesh);
  EXPECT_EQ(indices.rows(), 6);
  EXPECT_EQ(indices.row_begin(5), 20);
  EXPECT_EQ(indices.runs(), (Runs{{2, 2}}));
  EXPECT_EQ(indices.single_range(), std::nullopt);
}

TEST(LocalIndices, OfANumberAreItsOnlyOne) {
  const DeviceMesh mesh(make_fake_world(2, 1), c10::kCPU, {2});
  EXPECT_EQ(indices_of({}, {Replicate()}, mesh).single_range(), 0);
}

/// Compares every layout of R, S and SS on a mesh with a tensor of indices that is sharded by definition.
void expect_indices_by_definition(c10::IntArrayRef sizes, c10::IntArrayRef mesh_shape) {
  const auto ndim = static_cast<int64_t>(sizes.size());
  std::vector<Placement> placements = {Replicate()};
  for (int64_t d = 0; d < ndim; ++d) {
    placements.push_back(Shard(d));
    placements.push_back(StridedShard(d, 2));
  }
  const auto global = at::arange(c10::multiply_integers(sizes)).view(sizes);
  const auto ranks = c10::multiply_integers(mesh_shape);
  for (const auto& layout : all_layouts(static_cast<int64_t>(mesh_shape.size()), ndim, placements)) {
    for (int64_t r = 0; r < ranks; ++r) {
      const DeviceMesh mesh(make_fake_world(ranks, r), c10::kCPU, mesh_shape);
      const auto indices = indices_of(sizes, layout, mesh);
      const auto expected = local_by_definition(global, layout, mesh_shape, coordinate_at(r, mesh_shape));
      EXPECT_EQ(indices.rows() * indices.row_length(), expected.numel());
      EXPECT_TRUE(at::equal(as_tensor(indices), expected.flatten())) << layout << ", rank " << r;
      if (const auto first = indices.single_range(); first && expected.numel() > 0) {
        EXPECT_TRUE(at::equal(at::arange(*first, *first + expected.numel()), expected.flatten())) << layout;
      }
      for (int64_t row = 0; row < indices.rows() && indices.row_length() > 0; ++row) {
        EXPECT_EQ(indices.row_begin(row), indices.row_begins(at::kCPU)[row].item<int64_t>());
      }
    }
  }
}

TEST(LocalIndices, OfEveryLayoutAreThoseOfTheDefinition) {
  expect_indices_by_definition({8, 6}, {2});
  expect_indices_by_definition({5, 7}, {3});
  expect_indices_by_definition({3, 5, 4}, {2});
  expect_indices_by_definition({7, 5}, {2, 2});
}

} // namespace random_indices_test

} // namespace weft
