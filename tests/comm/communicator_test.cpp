#include "weft/comm/communicator.h"

#include "tests/support/error_text.h"
#include "tests/support/scoped_environment.h"
#include "weft/comm/world/fake_world.h"

#include <gtest/gtest.h>

namespace weft {

namespace communicator_test {

using testing::error_text;
using testing::expect_contains;
using testing::ScopedEnvironment;

TEST(Communicator, AMeshForPlanningHasNone) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { Communicator::of(DeviceMesh::parse("mesh(dp=2,tp=4)")); }),
      "[comm] communication needs a mesh whose ranks can communicate, but got mesh(dp=2,tp=4), which is for planning "
      "only. "
      "Make the mesh with init_device_mesh.");
}

TEST(Communicator, MakesAGroupWhenFirstAskedAndOnlyThoseOfThisRank) {
  const auto world = make_fake_world(4096, /*rank=*/65);
  const DeviceMesh mesh(world, c10::kCPU, {16, 16, 16}, {"pp", "dp", "tp"});
  EXPECT_EQ(world->group_count(), 0);
  const auto tp = world->group(mesh, 2);
  EXPECT_EQ(world->group_count(), 1);
  EXPECT_EQ(world->group(mesh, 2), tp);
  EXPECT_EQ(world->group_count(), 1);
  EXPECT_EQ(tp->ranks().front(), 64);
  EXPECT_EQ(tp->rank(), 1);
  EXPECT_EQ(tp->label(), "tp");
  world->group(mesh, {1, 2});
  world->group(mesh, {0, 1, 2});
  EXPECT_EQ(world->group_count(), 3) << "of 256 * 3 slices along one dim alone";
}

TEST(Communicator, NumbersSubjectsByTheGroupWhoseCallsAreAboutThem) {
  const auto world = make_fake_world(4, 0);
  const auto number = [&](const char* first, int64_t mesh_dim) {
    return world->number_subject(DeviceMesh(world, c10::kCPU, {2, 2}, {first, "tp"}), mesh_dim);
  };
  EXPECT_EQ(number("dp", 0), 1);
  EXPECT_EQ(number("dp", 0), 2) << "although no mesh has lived between the calls";
  EXPECT_EQ(number("dp", 1), 1) << "the members of another group may have other subjects before";
  EXPECT_EQ(number("pp", 0), 1);
  EXPECT_EQ(number("dp", 0), 3);
}

TEST(Communicator, AFusedGroupCountsItsMembersRowMajor) {
  const auto world = make_fake_world(8, /*rank=*/6);
  const DeviceMesh mesh(world, c10::kCPU, {2, 2, 2}, {"pp", "dp", "tp"});
  const auto group = world->group(mesh, {0, 2});
  EXPECT_EQ(group->to_string(), "group pp,tp (ranks 2,3,6,7)");
  EXPECT_EQ(group->rank(), 2);
}

TEST(Communicator, EqualMeshesShareTheirGroupsAndOthersHaveTheirOwn) {
  const auto world = make_fake_world(4);
  const DeviceMesh mesh(world, c10::kCPU, {2, 2}, {"dp", "tp"});
  const DeviceMesh again(world, c10::kCPU, {2, 2}, {"dp", "tp"});
  EXPECT_EQ(world->group(mesh, 1), world->group(again, 1));
  EXPECT_EQ(world->group(mesh, {1, 0}), world->group(again, {0, 1}));
  const DeviceMesh renamed(world, c10::kCPU, {2, 2}, {"ep", "tp"});
  const DeviceMesh cuda(world, c10::kCUDA, {2, 2}, {"dp", "tp"});
  const DeviceMesh reordered(world, c10::kCPU, {2, 2}, {0, 1, 3, 2}, {"dp", "tp"});
  for (const auto& other : {renamed, cuda, reordered}) {
    EXPECT_EQ(world->group(mesh, 1)->ranks(), world->group(other, 1)->ranks());
    EXPECT_NE(world->group(mesh, 1), world->group(other, 1)) << other;
  }
  EXPECT_NE(world->group(mesh, 1), world->group(mesh.submesh({"tp"}), 0)) << "a sub-mesh is a mesh of its own";
  EXPECT_EQ(world->group(mesh.submesh({"tp"}), 0), world->group(again.submesh({"tp"}), 0));
}

TEST(Communicator, AGroupLivesAsLongAsAMeshThatHasAskedForIt) {
  const auto world = make_fake_world(4);
  const auto make = [&] { return DeviceMesh(world, c10::kCPU, {2, 2}, {"dp", "tp"}); };
  auto mesh = make();
  world->group(mesh, 1);
  const auto again = make();
  world->group(again, 1);
  EXPECT_EQ(world->group_count(), 1);
  mesh = {};
  EXPECT_EQ(world->group_count(), 1);
  auto copy = again;
  EXPECT_EQ(world->group(copy, 1), world->group(again, 1));
  EXPECT_EQ(world->group_count(), 1);
}

TEST(Communicator, MeshesThatAreGoneLeaveNothingBehind) {
  const auto world = make_fake_world(4);
  for (int i = 0; i < 100; ++i) {
    const DeviceMesh mesh(world, c10::kCPU, {2, 2}, {"dp" + std::to_string(i), "tp"});
    world->group(mesh, 0);
    world->group(mesh.submesh({"tp"}), 0);
    EXPECT_EQ(world->group_count(), 1) << "the sub-mesh is gone";
  }
  EXPECT_EQ(world->group_count(), 0);
}

/// A cache that holds the last reference to a mesh.
std::vector<DeviceMesh>& kept_meshes() {
  static std::vector<DeviceMesh> meshes;
  return meshes;
}

TEST(Communicator, ManyGroupsMakeCachesLetGoOfTheirs) {
  on_many_groups([] { kept_meshes().clear(); });
  const auto world = make_fake_world(2);
  for (size_t i = 0; i < 10 * kManyGroups; ++i) {
    const DeviceMesh mesh(world, c10::kCPU, {2}, {"d" + std::to_string(i)});
    world->group(mesh, 0);
    kept_meshes().push_back(mesh);
    EXPECT_LE(world->group_count(), kManyGroups);
  }
  kept_meshes().clear();
}

TEST(Communicator, ARankOutsideTheMeshGetsAnError) {
  const auto world = make_fake_world(4, /*rank=*/3);
  const DeviceMesh mesh(world, c10::kCPU, {2}, {"tp"});
  expect_contains(error_text<c10::ValueError>([&] { world->group(mesh, 0); }), "mesh(tp=2)");
  EXPECT_EQ(world->group_count(), 0);
}

TEST(Communicator, TheTimeoutIsTenMinutesUnlessTheEnvironmentSaysOtherwise) {
  {
    const ScopedEnvironment none({{"WEFT_TIMEOUT_SECONDS", std::nullopt}});
    EXPECT_EQ(default_timeout(), std::chrono::minutes(10));
  }
  const ScopedEnvironment seven(ScopedEnvironment::Values{{"WEFT_TIMEOUT_SECONDS", "7"}});
  EXPECT_EQ(default_timeout(), std::chrono::seconds(7));
  EXPECT_EQ(make_fake_world(2)->timeout(), std::chrono::seconds(7));
}

TEST(Communicator, ATimeoutThatMakesNoSenseIsAnError) {
  for (const char* text : {"0", "-3", "soon", "5s", ""}) {
    const ScopedEnvironment environment(ScopedEnvironment::Values{{"WEFT_TIMEOUT_SECONDS", text}});
    EXPECT_EQ(
        error_text<c10::ValueError>([] { default_timeout(); }),
        std::string("[comm] WEFT_TIMEOUT_SECONDS must be a positive number of seconds, but got '") + text + "'.");
  }
}

} // namespace communicator_test

} // namespace weft
