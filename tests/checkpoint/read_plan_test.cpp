#include "weft/checkpoint/read_plan.h"

#include "tests/support/layout_cases.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {

namespace read_plan_test {

/// A tensor of 4-byte elements that the ranks of a mesh have stored one after the other, each its block.
StoredTensor stored_by(c10::IntArrayRef sizes, const Layout& layout, c10::IntArrayRef mesh_shape) {
  StoredTensor stored{.dtype = at::kFloat, .sizes = c10::DimVector(sizes), .parts = {}};
  uint64_t begin = 0;
  for (int64_t i = 0; i < c10::multiply_integers(mesh_shape); ++i) {
    StoredPart part{
        .file = 0, .begin = begin, .index = block_of(sizes, layout, mesh_shape, coordinate_at(i, mesh_shape))};
    const auto shape = block_shape(part.index);
    int64_t stride = 1;
    part.strides.resize(shape.size());
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
      part.strides[d] = stride;
    }
    begin += 4 * static_cast<uint64_t>(block_numel(part.index));
    stored.parts.push_back(std::move(part));
  }
  return stored;
}

TEST(ReadPlan, AFullReadOfAPartIsOneBox) {
  const auto stored = stored_by({4, 4}, {Shard(0)}, {2});
  const auto boxes = plan_reads(stored, {{{2, 2}}, {{0, 4}}});
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].part, 1u);
  EXPECT_EQ(boxes[0].begin, 32u);
  EXPECT_EQ(boxes[0].sizes, c10::DimVector({2, 4}));
}

TEST(ReadPlan, ColumnsAreABoxOfEveryPart) {
  const auto stored = stored_by({4, 4}, {Shard(0)}, {2});
  const auto boxes = plan_reads(stored, {{{0, 4}}, {{2, 2}}});
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].begin, 8u);
  EXPECT_EQ(boxes[1].begin, 40u);
  EXPECT_EQ(boxes[1].sizes, c10::DimVector({2, 2}));
  EXPECT_EQ(boxes[1].strides, c10::DimVector({4, 1}));
  EXPECT_EQ(boxes[1].target_offset, c10::DimVector({2, 0}));
}

TEST(ReadPlan, EveryElementIsReadOnceForAnyTwoLayouts) {
  const std::vector<int64_t> sizes = {5, 4};
  const std::vector<Placement> placements = {Shard(0), Shard(1), StridedShard(0, 2), StridedShard(1, {2, 1, 1})};
  for (const auto& source : testing::all_layouts(2, 2, placements)) {
    const auto stored = stored_by(sizes, source, {2, 2});
    for (const auto& target : testing::all_layouts(2, 2, {Shard(0), Shard(1), StridedShard(0, 2), Replicate()})) {
      for (int64_t i = 0; i < 6; ++i) {
        const auto wanted = block_of(sizes, target, {2, 3}, coordinate_at(i, {2, 3}));
        std::set<std::vector<int64_t>> filled;
        int64_t count = 0;
        for (const auto& box : plan_reads(stored, wanted)) {
          for (int64_t r = 0; r < box.sizes[0]; ++r) {
            for (int64_t c = 0; c < box.sizes[1]; ++c, ++count) {
              filled.insert({box.target_offset[0] + r, box.target_offset[1] + c});
            }
          }
        }
        EXPECT_EQ(count, block_numel(wanted)) << source << " " << target;
        EXPECT_EQ(static_cast<int64_t>(filled.size()), count);
      }
    }
  }
}

TEST(ReadPlan, RowsAreJoinedWhereTheyAreConsecutiveOnBothSides) {
  const auto stored = stored_by({2, 3, 4}, {Replicate()}, {1});
  const auto box = plan_reads(stored, full_block({2, 3, 4}))[0];
  EXPECT_EQ(byte_rows(box, {12, 4, 1}, 4).row_bytes, 96u);
  const auto of_strided = byte_rows(box, {24, 8, 1}, 4);
  EXPECT_EQ(of_strided.row_bytes, 16u);
  ASSERT_EQ(of_strided.dims.size(), 2u);
  EXPECT_EQ(of_strided.dims[0].file_stride, 48);
  EXPECT_EQ(of_strided.dims[0].target_stride, 96);
}

TEST(ReadPlan, DimsOfATransposedPartAreInTheOrderOfTheFile) {
  const ReadBox box{.part = 0, .begin = 0, .sizes = {3, 5}, .strides = {1, 3}, .target_offset = {0, 0}};
  const auto rows = byte_rows(box, {1, 3}, 4);
  EXPECT_EQ(rows.row_bytes, 60u);
  EXPECT_EQ(byte_rows(box, {5, 1}, 4).row_bytes, 4u);
}

} // namespace read_plan_test

} // namespace weft
