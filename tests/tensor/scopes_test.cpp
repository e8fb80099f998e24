#include "weft/tensor/scopes.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {
namespace {

TEST(DebugScope, HoldsWhileItLasts) {
  EXPECT_FALSE(debug_enabled());
  {
    const DebugScope debug;
    EXPECT_TRUE(debug_enabled());
    {
      const DebugScope off(false);
      EXPECT_FALSE(debug_enabled());
    }
    EXPECT_TRUE(debug_enabled());
  }
  EXPECT_FALSE(debug_enabled());
}

TEST(DebugScope, IsOfItsThreadAlone) {
  const DebugScope debug;
  bool elsewhere = true;
  std::thread([&] { elsewhere = debug_enabled(); }).join();
  EXPECT_FALSE(elsewhere);
}

} // namespace
} // namespace weft
