#include "weft/comm/world/message_group.h"

#include "tests/support/group_faults.h"

#include <gtest/gtest.h>

namespace weft {

namespace message_group_test {

/// The ranks are processes of one host, which would share memory.
const testing::Environment kEnvironment = {{"WEFT_SHARED_MEMORY", "0"}};

TEST(MessageGroup, ARankKilledInsideACollectiveIsAnErrorOnTheOthers) {
  testing::check_killed_rank(kEnvironment);
}

TEST(MessageGroup, AStoppedRankIsAnErrorOnTheOthersWithinTheTimeout) {
  testing::check_stopped_rank(kEnvironment);
}

TEST(MessageGroup, ARankThatExitsEarlyIsAnErrorOnTheOthers) {
  testing::check_rank_that_leaves(kEnvironment);
}

TEST(MessageGroup, AnUncaughtErrorEndsTheRankAtOnceAndTheOthersFollow) {
  testing::check_rank_that_throws(kEnvironment);
}

TEST(MessageGroup, RanksThatMakeDifferentCallsAllGetAnErrorThatNamesTheirs) {
  testing::check_different_calls(kEnvironment);
}

} // namespace message_group_test

} // namespace weft
