#include "weft/comm/world/shared_memory_meeting.h"

#include "tests/support/error_text.h"
#include "tests/support/fault_roles.h"
#include "tests/support/scoped_environment.h"
#include "weft/comm/collectives.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/backend_channel.h"
#include "weft/comm/world/current_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cstdlib>

namespace weft {

namespace shared_memory_meeting_test {

using testing::error_text;
using testing::expect_ended_well;
using testing::run_process_ranks;
using testing::ScopedEnvironment;

void say_how_a_sum_goes() {
  const auto mesh = init_device_mesh("cpu", {current_world()->size()}, {"tp"});
  const auto sum = all_reduce(at::ones({}), mesh, 0, ReduceOp::Sum).wait().item<int64_t>();
  const auto group = Communicator::of(mesh).group(mesh, 0);
  testing::say("sum ", sum, dynamic_cast<BackendGroup*>(group.get()) != nullptr ? " by gloo" : " by shared memory");
  barrier(mesh, 0);
}

RANK_ROLE(sums_on_a_host) {
  say_how_a_sum_goes();
}

TEST(SharedMemoryMeeting, ProcessesOfOneHostShareMemoryByThemselves) {
  const auto ranks = run_process_ranks("sums_on_a_host", 3);
  for (size_t rank = 0; rank < 3; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("sum 3 by shared memory")) << describe(ranks);
  }
}

RANK_ROLE(sums_with_a_rank_that_refuses) {
  if (std::string(std::getenv("RANK")) == "1") {
    setenv("WEFT_SHARED_MEMORY", "0", 1);
  }
  say_how_a_sum_goes();
}

TEST(SharedMemoryMeeting, IfOneRankRefusesAllUseGloo) {
  const auto ranks = run_process_ranks("sums_with_a_rank_that_refuses", 3);
  for (size_t rank = 0; rank < 3; ++rank) {
    expect_ended_well(ranks, rank);
    EXPECT_TRUE(ranks[rank].has_line("sum 3 by gloo")) << describe(ranks);
  }
}

TEST(SharedMemoryMeeting, TheEnvironmentVariableIsZeroOrOne) {
  {
    const ScopedEnvironment zero(ScopedEnvironment::Values{{"WEFT_SHARED_MEMORY", "0"}});
    EXPECT_FALSE(may_share_memory());
  }
  EXPECT_TRUE(may_share_memory());
  const ScopedEnvironment wrong(ScopedEnvironment::Values{{"WEFT_SHARED_MEMORY", "no"}});
  EXPECT_EQ(
      error_text<c10::ValueError>([] { may_share_memory(); }),
      "[comm] WEFT_SHARED_MEMORY must be 0 or 1, but got 'no'.");
}

} // namespace shared_memory_meeting_test

} // namespace weft
