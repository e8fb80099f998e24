#include "weft/tensor/impl/parallel_forward.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {

namespace parallel_forward_test {

TEST(ParallelForward, LastsUntilTheOutermostObjectIsDestroyed) {
  EXPECT_FALSE(ParallelForward::is_active());
  {
    const ParallelForward outer;
    {
      const ParallelForward inner;
      const ParallelForward none(false);
      EXPECT_TRUE(ParallelForward::is_active());
    }
    EXPECT_TRUE(ParallelForward::is_active());
  }
  EXPECT_FALSE(ParallelForward::is_active());
  const ParallelForward none(false);
  EXPECT_FALSE(ParallelForward::is_active());
}

TEST(ParallelForward, IsOfItsThreadAlone) {
  const ParallelForward scope;
  bool elsewhere = true;
  std::thread([&] { elsewhere = ParallelForward::is_active(); }).join();
  EXPECT_FALSE(elsewhere);
}

} // namespace parallel_forward_test

} // namespace weft
