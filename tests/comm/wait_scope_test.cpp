#include "weft/comm/wait_scope.h"

#include "weft/comm/pending.h"

#include <gtest/gtest.h>

namespace weft {

namespace wait_scope_test {
thread_local bool holds_lock = false;
thread_local int releases = 0;

void* release() {
  if (!holds_lock) {
    return nullptr;
  }
  holds_lock = false;
  ++releases;
  return &holds_lock;
}

void take_back(void* lock) {
  *static_cast<bool*>(lock) = true;
}

class WaitScopeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_wait_hooks({.before = &release, .after = &take_back});
  }
  void TearDown() override {
    set_wait_hooks({.before = nullptr, .after = nullptr});
    holds_lock = false;
    releases = 0;
  }
};

TEST_F(WaitScopeTest, ALockIsGivenAwayWhileAnOperationIsWaitedForAndTakenBack) {
  holds_lock = true;
  bool held_meanwhile = true;
  Pending pending([&] { held_meanwhile = holds_lock; });
  EXPECT_EQ(releases, 0);
  pending.wait();
  EXPECT_FALSE(held_meanwhile);
  EXPECT_TRUE(holds_lock);
  EXPECT_EQ(releases, 1);
}

TEST_F(WaitScopeTest, ALockIsTakenBackAfterAnError) {
  holds_lock = true;
  Pending pending([] { throw std::runtime_error("lost"); });
  EXPECT_THROW(pending.wait(), std::runtime_error);
  EXPECT_TRUE(holds_lock);
}

TEST_F(WaitScopeTest, LettingGoOfAnOperationGivesTheLockAwayToo) {
  holds_lock = true;
  {
    const Pending pending([] {});
  }
  EXPECT_EQ(releases, 1);
}

TEST_F(WaitScopeTest, AThreadWithoutTheLockIsLeftAlone) {
  Pending pending([] {});
  pending.wait();
  EXPECT_EQ(releases, 0);
  EXPECT_FALSE(holds_lock);
}

} // namespace wait_scope_test

} // namespace weft
