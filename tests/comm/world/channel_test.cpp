#include "weft/comm/world/channel.h"

#include "tests/support/error_text.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/fake_world.h"

#include <gtest/gtest.h>

namespace weft {

namespace channel_test {

using testing::error_text;

const Call kReduce{.collective = Collective::AllReduce, .dtype = c10::kFloat, .sizes = {4}, .sequence = 7};
const Call kGather{.collective = Collective::AllGather, .dtype = c10::kLong, .sizes = {2}, .sequence = 8};

struct ChannelTest : ::testing::Test {
  c10::intrusive_ptr<Communicator> world = make_fake_world(4, /*rank=*/2);
  std::shared_ptr<Group> group = world->group(DeviceMesh(world, c10::kCPU, {2, 2}, {"dp", "tp"}), 1);
  Channel channel;
};

TEST_F(ChannelTest, NumbersCollectivesAndTheMessagesOfEachPeerAndDirectionApart) {
  EXPECT_EQ(channel.next_sequence(), 0);
  EXPECT_EQ(channel.next_sequence(), 1);
  EXPECT_EQ(channel.next_message(Collective::Send, 1), 0);
  EXPECT_EQ(channel.next_message(Collective::Send, 1), 1);
  EXPECT_EQ(channel.next_message(Collective::Recv, 1), 0);
  EXPECT_EQ(channel.next_message(Collective::Send, 0), 0);
  EXPECT_EQ(channel.next_sequence(), 2);
}

TEST_F(ChannelTest, AFailureNamesTheCallTheGroupAndTheRank) {
  EXPECT_NO_THROW(channel.check_usable(*group, kReduce));
  EXPECT_EQ(
      error_text<c10::DistBackendError>([&] { channel.fail(*group, kReduce, "receiving from rank 3: it broke"); }),
      "[all_reduce(sum) f32[4]] call 7 of group tp (ranks 2,3) failed on rank 2: receiving from rank 3: it broke. A "
      "rank "
      "has died, is stuck, or made another call: look at the first error of the other ranks.");
}

TEST_F(ChannelTest, AfterAFailureEveryCallFailsWithTheFirstReason) {
  EXPECT_THROW(channel.fail(*group, kReduce, "the first"), c10::DistBackendError);
  EXPECT_THROW(channel.fail(*group, kGather, "the second"), c10::DistBackendError);
  EXPECT_EQ(
      error_text<c10::DistBackendError>([&] { channel.check_usable(*group, kGather); }),
      "[all_gather i64[2]] group tp (ranks 2,3) cannot be used any more, because an earlier call failed: "
      "[all_reduce(sum) f32[4]] call 7 of group tp (ranks 2,3) failed on rank 2: the first. Restart the ranks.");
}

} // namespace channel_test

} // namespace weft
