#include "weft/comm/world/first_failure.h"

#include "tests/support/error_text.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/fake_world.h"

#include <gtest/gtest.h>

namespace weft {

namespace first_failure_test {

using testing::error_text;

const Call kReduce{.collective = Collective::AllReduce, .dtype = c10::kFloat, .sizes = {4}, .sequence = 7};
const Call kGather{.collective = Collective::AllGather, .dtype = c10::kLong, .sizes = {2}, .sequence = 8};

struct FirstFailureTest : ::testing::Test {
  c10::intrusive_ptr<Communicator> world = make_fake_world(4, /*rank=*/2);
  std::shared_ptr<Group> group = world->group(DeviceMesh(world, c10::kCPU, {2, 2}, {"dp", "tp"}), 1);
  FirstFailure failure;
};

TEST_F(FirstFailureTest, NamesTheCallTheGroupAndTheRank) {
  EXPECT_FALSE(failure.has_happened());
  EXPECT_NO_THROW(failure.check_none(*group, kReduce));
  EXPECT_EQ(
      error_text<c10::DistBackendError>([&] { failure.fail(*group, kReduce, "it broke", "Look at rank 3"); }),
      "[all_reduce(sum) f32[4]] call 7 of group tp (ranks 2,3) failed on rank 2: it broke. Look at rank 3.");
  EXPECT_TRUE(failure.has_happened());
}

TEST_F(FirstFailureTest, AfterAFailureEveryCallFailsWithTheFirstReason) {
  EXPECT_THROW(failure.fail(*group, kReduce, "the first", "Look"), c10::DistBackendError);
  failure.record("the second");
  EXPECT_EQ(
      error_text<c10::DistBackendError>([&] { failure.check_none(*group, kGather); }),
      "[all_gather i64[2]] group tp (ranks 2,3) cannot be used any more, because an earlier call failed: "
      "[all_reduce(sum) f32[4]] call 7 of group tp (ranks 2,3) failed on rank 2: the first. Restart the ranks.");
}

} // namespace first_failure_test

} // namespace weft
