#include "weft/checkpoint/write_plan.h"

#include "tests/support/layout_cases.h"

#include <gtest/gtest.h>

#include <map>

namespace weft {

namespace write_plan_test {

constexpr auto kUnlimited = UINT64_MAX;

SavedTensor saved(const std::string& name, const std::string& spec) {
  const auto parsed = TensorSpec::parse(spec);
  return {name, parsed->dtype(), c10::DimVector(parsed->sizes()), parsed, {}};
}

/// How often each element is written by the ranks together.
std::map<std::vector<int64_t>, int64_t> writes_of(
    const SavedTensor& tensor,
    int64_t ranks,
    uint64_t max_bytes = kUnlimited) {
  std::map<std::vector<int64_t>, int64_t> counts;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (const auto& part : plan_writes({tensor}, rank, ranks, max_bytes)) {
      std::vector<std::vector<int64_t>> indices = {{}};
      for (const auto& runs : part.index) {
        std::vector<std::vector<int64_t>> longer;
        for (const auto& index : indices) {
          for (const auto& run : runs) {
            for (int64_t i = run.begin; i < run.begin + run.length; ++i) {
              longer.push_back(index);
              longer.back().push_back(i);
            }
          }
        }
        indices = std::move(longer);
      }
      for (const auto& index : indices) {
        ++counts[index];
      }
    }
  }
  return counts;
}

TEST(WritePlan, EveryElementIsWrittenOnceInAnyLayout) {
  const std::vector<Placement> placements = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)};
  for (const auto& layout : testing::all_layouts(2, 2, placements)) {
    const auto tensor = saved("x", c10::str("f32[5,3] @ mesh(a=2,b=3) ", layout));
    const auto counts = writes_of(tensor, 6);
    EXPECT_EQ(counts.size(), 15u) << layout;
    for (const auto& [index, count] : counts) {
      EXPECT_EQ(count, 1) << layout;
    }
  }
}

TEST(WritePlan, APartHasAtMostTheGivenBytes) {
  const std::vector<Placement> placements = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)};
  for (const uint64_t most : {1, 4, 8, 20, 60}) {
    for (const auto& layout : testing::all_layouts(2, 2, placements)) {
      const auto tensor = saved("x", c10::str("f32[5,3] @ mesh(a=2,b=3) ", layout));
      const auto counts = writes_of(tensor, 6, most);
      EXPECT_EQ(counts.size(), 15u) << layout;
      for (const auto& [index, count] : counts) {
        EXPECT_EQ(count, 1) << layout;
      }
      for (int64_t rank = 0; rank < 6; ++rank) {
        for (const auto& part : plan_writes({tensor}, rank, 6, most)) {
          EXPECT_LE(static_cast<uint64_t>(4 * block_numel(part.index)), std::max<uint64_t>(most, 4)) << layout;
        }
      }
    }
  }
}

TEST(WritePlan, ALargeReplicatedTensorIsDividedBetweenItsHolders) {
  const auto tensor = saved("x", "f32[4097,1024] @ mesh(dp=2,tp=2) {R, S(1)}");
  const auto other = saved("y", "f32[2048,8192] @ mesh(dp=2,tp=2) {R, S(1)}");
  EXPECT_EQ(plan_writes({tensor}, 0, 4, kUnlimited).size(), 1u); // 8 MB: not divided
  EXPECT_EQ(plan_writes({tensor}, 2, 4, kUnlimited).size(), 0u);
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto parts = plan_writes({other}, rank, 4, kUnlimited);
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts[0].positions[0], (weft::Run{rank / 2 * 1024, 1024}));
    EXPECT_EQ(parts[0].positions[1], (weft::Run{0, 4096}));
    EXPECT_EQ(parts[0].index[0], (Runs{{rank / 2 * 1024, 1024}}));
  }
}

TEST(WritePlan, ReplicatedTensorsAreSpreadByBytes) {
  std::vector<SavedTensor> tensors;
  for (int64_t i = 0; i < 9; ++i) {
    tensors.push_back(saved(c10::str("x", i), c10::str("f32[", 100 + i, "] @ mesh(dp=3) {R}")));
  }
  for (int64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(plan_writes(tensors, rank, 3, kUnlimited).size(), 3u);
  }
}

TEST(WritePlan, APlainTensorIsWrittenByOneOfItsHolders) {
  const SavedTensor tensor{"x", at::kFloat, {3}, nullptr, {1, 2}};
  EXPECT_EQ(plan_writes({tensor}, 0, 3, kUnlimited).size(), 0u);
  EXPECT_EQ(plan_writes({tensor}, 1, 3, kUnlimited).size(), 1u);
  EXPECT_EQ(plan_writes({tensor}, 2, 3, kUnlimited).size(), 0u);
  EXPECT_EQ(plan_writes({tensor, tensor}, 2, 3, kUnlimited).size(), 1u);
}

} // namespace write_plan_test

} // namespace weft
