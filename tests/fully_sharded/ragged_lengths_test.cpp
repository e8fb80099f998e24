#include "weft/fully_sharded/ragged_lengths.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft {

namespace ragged_lengths_test {
using Lengths = std::vector<std::vector<int64_t>>;

TEST(RaggedLengths, BoundariesFallOnTheNearestRow) {
  EXPECT_EQ(ragged_lengths({{6, 2}, {6}}, 2), (Lengths{{5, 1}, {0, 6}}));
  EXPECT_EQ(ragged_lengths({{5, 4}, {3}}, 2), (Lengths{{3, 2}, {0, 3}}));
}

TEST(RaggedLengths, SmallTensorsBelongToOneMember) {
  EXPECT_EQ(ragged_lengths({{3}, {8, 8}, {5}}, 2), (Lengths{{3, 0}, {4, 4}, {0, 5}}));
  EXPECT_EQ(ragged_lengths({{1}}, 4), (Lengths{{0, 0, 0, 1}}));
}

TEST(RaggedLengths, TensorsWithoutElementsBelongToTheLastMember) {
  EXPECT_EQ(ragged_lengths({{0, 3}, {4}, {3, 0}}, 2), (Lengths{{0, 0}, {2, 2}, {0, 3}}));
}

TEST(RaggedLengths, EveryMemberHoldsOneRangeOfTheBuffer) {
  const std::vector<c10::DimVector> shapes = {{7, 11}, {3}, {1, 13}, {5, 2, 3}, {17}};
  for (int64_t members = 1; members < 9; ++members) {
    const auto lengths = ragged_lengths(shapes, members);
    int64_t last = 0; // the member that held the last row so far
    for (size_t t = 0; t < shapes.size(); ++t) {
      EXPECT_EQ(std::accumulate(lengths[t].begin(), lengths[t].end(), int64_t{0}), shapes[t][0]) << members;
      for (int64_t member = 0; member < members; ++member) {
        if (lengths[t][member] > 0) {
          EXPECT_GE(member, last) << members;
          last = member;
        }
      }
    }
  }
}

TEST(RaggedLengths, NoMemberHoldsMoreThanItsShareAndARow) {
  const std::vector<c10::DimVector> shapes = {{64, 8}, {64}, {32, 16}, {128, 4}};
  const auto lengths = ragged_lengths(shapes, 3);
  for (int64_t member = 0; member < 3; ++member) {
    int64_t held = 0;
    for (size_t t = 0; t < shapes.size(); ++t) {
      held += lengths[t][member] * c10::multiply_integers(shapes[t]) / shapes[t][0];
    }
    EXPECT_LE(held, (3 * 512 + 64) / 3 + 16) << member;
  }
}

} // namespace ragged_lengths_test
} // namespace weft
