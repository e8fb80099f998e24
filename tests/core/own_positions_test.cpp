#include "weft/core/own_positions.h"

#include <gtest/gtest.h>

namespace weft {

namespace own_positions_test {

/// A position as a tensor of one element.
struct Numbers {
  static int subtract(int value, int number) {
    return value - number;
  }
  static int is_outside(int value, int end) {
    return value < 0 || value >= end ? 1 : 0;
  }
  static int fill(int value, int mask, int number) {
    return mask != 0 ? number : value;
  }
};

TEST(OwnPositions, AForeignOneBecomesTheFirstAndOneThatIsNowhereIsRefused) {
  const auto of = [](int position) { return own_positions(Numbers(), position, 4, 4, 10); };
  EXPECT_EQ(of(4).positions, 0);
  EXPECT_EQ(of(7).positions, 3);
  EXPECT_EQ(of(7).foreign, 0);
  for (const auto foreign : {3, 8}) {
    EXPECT_EQ(of(foreign).positions, 0);
    EXPECT_EQ(of(foreign).foreign, 1);
  }
  for (const auto nowhere : {-1, 10}) {
    EXPECT_EQ(of(nowhere).positions, -1);
    EXPECT_EQ(of(nowhere).foreign, 1);
  }
}

} // namespace own_positions_test

} // namespace weft
