#include "weft/comm/world/current_world.h"

#include "tests/support/error_text.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/fake_world.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <thread>

namespace weft {

namespace current_world_test {

using testing::error_text;
using testing::run_process_ranks;
using testing::say;

TEST(CurrentWorld, IsOneRankWhereNoLauncherStartedTheProcess) {
  const auto world = current_world();
  EXPECT_EQ(world->rank(), 0);
  EXPECT_EQ(world->size(), 1);
  EXPECT_EQ(current_world(), world) << "it is made once";
  const auto mesh = init_device_mesh("cpu", {1}, {"dp"});
  EXPECT_TRUE(at::equal(all_reduce(at::ones({2}), mesh, 0, ReduceOp::Sum).wait(), at::ones({2})));
}

TEST(CurrentWorld, AScopeSetsItForThisThreadAndScopesNest) {
  const auto process_world = current_world();
  {
    EXPECT_FALSE(in_world_scope());
    const WorldScope outer(make_fake_world(8, 3));
    EXPECT_TRUE(in_world_scope());
    EXPECT_EQ(current_world()->size(), 8);
    {
      const WorldScope inner(make_fake_world(2));
      EXPECT_EQ(current_world()->size(), 2);
    }
    EXPECT_EQ(current_world()->size(), 8);
    std::thread([&] {
      EXPECT_EQ(current_world(), process_world);
      EXPECT_FALSE(in_world_scope());
    }).join();
  }
  EXPECT_EQ(current_world(), process_world);
}

TEST(InitDeviceMesh, IsAMeshOverTheFirstRanksOfTheCurrentWorld) {
  const WorldScope scope(make_fake_world(8, 6));
  const auto mesh = init_device_mesh("cpu", {2, 4}, {"dp", "tp"});
  EXPECT_EQ(mesh.to_string(), "mesh(dp=2,tp=4)");
  EXPECT_EQ(mesh.coordinate(), c10::IntArrayRef({1, 2}));
  EXPECT_EQ(mesh.world(), current_world());
  EXPECT_EQ(mesh.device_type(), c10::kCPU);
  EXPECT_EQ(init_device_mesh("cuda:1", {8}).device_type(), c10::kCUDA);
  EXPECT_FALSE(init_device_mesh("cpu", {4}).is_member());
}

TEST(InitDeviceMesh, RaisesWhereTheWorldIsTooSmallOrTheDeviceIsUnknown) {
  const WorldScope scope(make_fake_world(4));
  const auto text = error_text<c10::ValueError>([] { init_device_mesh("cpu", {2, 4}, {"dp", "tp"}); });
  EXPECT_NE(text.find("shape [2, 4] needs ranks below the world size 4"), std::string::npos) << text;
  EXPECT_NE(error_text([] { init_device_mesh("abacus", {4}); }).find("abacus"), std::string::npos);
}

RANK_ROLE(says_its_place) {
  const auto world = current_world();
  say("rank ", world->rank(), " of ", world->size());
  TORCH_CHECK(current_world() == world);
  barrier(init_device_mesh("cpu", {world->size()}), 0);
}

TEST(CurrentWorld, IsMadeFromTheEnvironmentThatALauncherSets) {
  const auto ranks = run_process_ranks("says_its_place", 2);
  EXPECT_TRUE(ranks[0].has_line("rank 0 of 2")) << describe(ranks);
  EXPECT_TRUE(ranks[1].has_line("rank 1 of 2")) << describe(ranks);
  EXPECT_EQ(ranks[0].exit_code + ranks[1].exit_code, 0) << describe(ranks);
}

TEST(CurrentWorld, AnEnvironmentThatMakesNoSenseIsAnErrorOfTheFirstUse) {
  const auto ranks = run_process_ranks("says_its_place", 1, {.environment = {{"WORLD_SIZE", "many"}}});
  EXPECT_EQ(ranks[0].exit_code, 1);
  EXPECT_TRUE(
      ranks[0].has_line("error: [launch] the environment variable WORLD_SIZE must be an integer, but got 'many'."))
      << describe(ranks);
}

} // namespace current_world_test

} // namespace weft
