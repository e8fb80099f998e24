#include "weft/core/device_mesh.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <unordered_set>

namespace weft {

namespace device_mesh_test {
using testing::error_text;
using Names = std::vector<std::string>;
using Ints = std::vector<int64_t>;

WorldPtr world_at(int64_t rank, int64_t size) {
  return c10::make_intrusive<World>(rank, size);
}

DeviceMesh dp_tp_mesh(int64_t rank) {
  return DeviceMesh(world_at(rank, 8), c10::kCPU, {2, 4}, {"dp", "tp"});
}

TEST(DeviceMesh, FromAShapeCountsTheRanksRowMajor) {
  const auto world = world_at(6, 8);
  const DeviceMesh mesh(world, c10::kCUDA, {2, 4}, {"dp", "tp"});
  EXPECT_TRUE(mesh.defined());
  EXPECT_EQ(mesh.world(), world);
  EXPECT_EQ(mesh.device_type(), c10::kCUDA);
  EXPECT_EQ(mesh.ndim(), 2);
  EXPECT_EQ(mesh.shape(), (Ints{2, 4}));
  EXPECT_EQ(mesh.size(), 8);
  EXPECT_EQ(mesh.size(0), 2);
  EXPECT_EQ(mesh.size(1), 4);
  EXPECT_EQ(mesh.ranks(), (Ints{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(mesh.names(), (Names{"dp", "tp"}));
  EXPECT_EQ(mesh.name(1), "tp");
}

TEST(DeviceMesh, DimsWithoutNamesAreNumbered) {
  EXPECT_EQ(DeviceMesh(world_at(0, 8), c10::kCPU, {2, 2, 2}).names(), (Names{"d0", "d1", "d2"}));
}

TEST(DeviceMesh, EveryRankKnowsItsCoordinate) {
  for (int64_t rank = 0; rank < 24; ++rank) {
    const DeviceMesh mesh(world_at(rank, 24), c10::kCPU, {2, 3, 4}, {"pp", "dp", "tp"});
    EXPECT_TRUE(mesh.is_member());
    EXPECT_EQ(mesh.coordinate(), (Ints{rank / 12, rank / 4 % 3, rank % 4}));
    EXPECT_EQ(mesh.rank(0), rank / 12);
    EXPECT_EQ(mesh.rank(1), rank / 4 % 3);
    EXPECT_EQ(mesh.rank(2), rank % 4);
  }
}

TEST(DeviceMesh, FromARankArrayPlacesEachRankWhereItStands) {
  const Ints ranks = {5, 0, 3, 2};
  for (size_t i = 0; i < ranks.size(); ++i) {
    const DeviceMesh mesh(world_at(ranks[i], 6), c10::kCPU, {2, 2}, ranks, {"a", "b"});
    EXPECT_EQ(mesh.ranks(), ranks);
    EXPECT_EQ(mesh.coordinate(), (Ints{static_cast<int64_t>(i) / 2, static_cast<int64_t>(i) % 2}));
  }
}

TEST(DeviceMesh, RankOutsideTheMeshIsNoMember) {
  const DeviceMesh mesh(world_at(2, 4), c10::kCPU, {2}, {1, 3}, {"tp"});
  EXPECT_FALSE(mesh.is_member());
  const std::string expected =
      "[DeviceMesh] only ranks of the mesh can compute on it, but rank 2 is not in mesh(tp=2; ranks=1,3). "
      "Guard the computation with mesh.is_member().";
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.coordinate(); }), expected);
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.rank(0); }), expected);
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.ranks_along({0}); }), expected);
}

TEST(DeviceMesh, SubmeshByOneNameGoesThroughThisRank) {
  EXPECT_EQ(dp_tp_mesh(6).submesh({"tp"}).to_string(), "mesh(tp=4; ranks=4,5,6,7)");
  EXPECT_EQ(dp_tp_mesh(6).submesh({"dp"}).to_string(), "mesh(dp=2; ranks=2,6)");
  EXPECT_EQ(dp_tp_mesh(6).submesh({"tp"}).coordinate(), Ints{2});
  EXPECT_EQ(dp_tp_mesh(6).submesh({"dp"}).coordinate(), Ints{1});
  EXPECT_EQ(dp_tp_mesh(1).submesh({"tp"}).to_string(), "mesh(tp=4)");
}

TEST(DeviceMesh, SubmeshBySeveralNamesTakesTheirOrder) {
  const DeviceMesh mesh(world_at(7, 12), c10::kCUDA, {2, 3, 2}, {"pp", "dp", "tp"});
  EXPECT_EQ(mesh.submesh({"pp", "tp"}).to_string(), "mesh(pp=2,tp=2; cuda; ranks=0,1,6,7)");
  EXPECT_EQ(mesh.submesh({"tp", "pp"}).to_string(), "mesh(tp=2,pp=2; cuda; ranks=0,6,1,7)");
  EXPECT_EQ(mesh.submesh({"tp", "pp"}).coordinate(), (Ints{1, 1}));
  EXPECT_EQ(mesh.submesh({"pp", "dp", "tp"}), mesh);
}

TEST(DeviceMesh, SubmeshesOfAllRanksTileTheMesh) {
  std::map<Ints, int64_t> members;
  for (int64_t rank = 0; rank < 8; ++rank) {
    const auto sub = dp_tp_mesh(rank).submesh({"dp"});
    EXPECT_TRUE(sub.is_member());
    ++members[sub.ranks().vec()];
  }
  EXPECT_EQ(members, (std::map<Ints, int64_t>{{{0, 4}, 2}, {{1, 5}, 2}, {{2, 6}, 2}, {{3, 7}, 2}}));
}

TEST(DeviceMesh, SubmeshHasNoRankThatIsOutsideTheMesh) {
  const DeviceMesh mesh(world_at(9, 10), c10::kCPU, {2, 4}, {"dp", "tp"});
  EXPECT_FALSE(mesh.submesh({"tp"}).is_member());
  EXPECT_EQ(mesh.submesh({"tp"}).to_string(), "mesh(tp=4)");
}

TEST(DeviceMesh, FlattenMakesOneDimOfSeveral) {
  const DeviceMesh mesh(world_at(5, 12), c10::kCPU, {2, 3, 2}, {"pp", "dp", "tp"});
  EXPECT_EQ(mesh.flatten({"pp", "dp", "tp"}).to_string(), "mesh(pp_dp_tp=12)");
  EXPECT_EQ(mesh.flatten({"dp", "tp"}).to_string(), "mesh(pp=2,dp_tp=6)");
  EXPECT_EQ(mesh.flatten({"pp", "dp"}, "data").to_string(), "mesh(data=6,tp=2)");
  EXPECT_EQ(mesh.flatten({"pp", "dp"}).coordinate(), (Ints{2, 1}));
  EXPECT_EQ(mesh.flatten({"pp", "tp"}).to_string(), "mesh(pp_tp=4,dp=3; ranks=0,2,4,1,3,5,6,8,10,7,9,11)");
  EXPECT_EQ(mesh.flatten({"dp"}), mesh);
}

TEST(DeviceMesh, FlattenTakesTheOrderAndPlaceOfTheNames) {
  EXPECT_EQ(dp_tp_mesh(6).flatten({"tp", "dp"}).to_string(), "mesh(tp_dp=8; ranks=0,4,1,5,2,6,3,7)");
  const DeviceMesh mesh(world_at(0, 8), c10::kCPU, {2, 2, 2}, {"a", "b", "c"});
  EXPECT_EQ(mesh.flatten({"c", "a"}).to_string(), "mesh(b=2,c_a=4; ranks=0,4,1,5,2,6,3,7)");
}

TEST(DeviceMesh, FlattenWorksOnARankOutsideTheMesh) {
  const DeviceMesh mesh(world_at(9, 10), c10::kCPU, {2, 4}, {"dp", "tp"});
  EXPECT_EQ(mesh.flatten({"dp", "tp"}).to_string(), "mesh(dp_tp=8)");
  EXPECT_FALSE(mesh.flatten({"dp", "tp"}).is_member());
}

TEST(DeviceMesh, RanksAlongDimsAreThisRanksGroup) {
  const DeviceMesh mesh(world_at(7, 12), c10::kCPU, {2, 3, 2}, {"pp", "dp", "tp"});
  EXPECT_EQ(mesh.ranks_along({0}), (Ints{1, 7}));
  EXPECT_EQ(mesh.ranks_along({1}), (Ints{7, 9, 11}));
  EXPECT_EQ(mesh.ranks_along({2}), (Ints{6, 7}));
  EXPECT_EQ(mesh.ranks_along({0, 2}), (Ints{0, 1, 6, 7}));
  EXPECT_EQ(mesh.ranks_along({2, 0}), (Ints{0, 1, 6, 7}));
  EXPECT_EQ(mesh.ranks_along({}), Ints{7});
  EXPECT_EQ(mesh.group_size({0, 2}), 4);
  EXPECT_EQ(mesh.group_size({}), 1);
}

TEST(DeviceMesh, FindsDimsByName) {
  const auto mesh = dp_tp_mesh(0);
  EXPECT_EQ(mesh.dim("dp"), 0);
  EXPECT_EQ(mesh.dim("tp"), 1);
  EXPECT_EQ(mesh.dims({"tp", "dp"}), (MeshDims{1, 0}));
  EXPECT_EQ(mesh.dims_text({1, 0}), "tp,dp");
  EXPECT_EQ(mesh.dims_text({}), "");
}

TEST(DeviceMesh, UnknownOrRepeatedNamesRaise) {
  const auto mesh = dp_tp_mesh(0);
  const std::string unknown =
      "[DeviceMesh] a mesh dim of mesh(dp=2,tp=4) is required, but got 'pp'. Use one of dp, tp.";
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.dim("pp"); }), unknown);
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.submesh({"dp", "pp"}); }), unknown);
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.flatten({"pp"}); }), unknown);
  const std::string repeated = "[DeviceMesh] each mesh dim may be named once, but got 'dp' twice.";
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.submesh({"dp", "dp"}); }), repeated);
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.flatten({"dp", "dp"}); }), repeated);
  const std::string none = "[DeviceMesh] at least one mesh dim of mesh(dp=2,tp=4) must be named.";
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.submesh(Names{}); }), none);
  EXPECT_EQ(error_text<c10::ValueError>([&] { mesh.flatten(Names{}); }), none);
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { mesh.flatten({"dp"}, "tp"); }),
      "[DeviceMesh] the names of mesh dims must differ, but got 'tp' twice.");
}

TEST(DeviceMesh, EqualityAndHashCompareEverything) {
  const auto world = world_at(0, 8);
  const std::vector<DeviceMesh> meshes = {
      DeviceMesh(),
      DeviceMesh(world, c10::kCPU, {2, 4}, {"dp", "tp"}),
      DeviceMesh(world, c10::kCPU, {4, 2}, {"dp", "tp"}),
      DeviceMesh(world, c10::kCPU, {2, 4}, {"tp", "dp"}),
      DeviceMesh(world, c10::kCPU, {8}, {"dp"}),
      DeviceMesh(world, c10::kCUDA, {2, 4}, {"dp", "tp"}),
      DeviceMesh(world, c10::kCPU, {2, 4}, {1, 0, 2, 3, 4, 5, 6, 7}, {"dp", "tp"}),
      DeviceMesh(world_at(0, 8), c10::kCPU, {2, 4}, {"dp", "tp"}),
  };
  const std::unordered_set<DeviceMesh> set(meshes.begin(), meshes.end());
  EXPECT_EQ(set.size(), meshes.size());
  for (size_t i = 0; i < meshes.size(); ++i) {
    for (size_t j = 0; j < meshes.size(); ++j) {
      EXPECT_EQ(meshes[i] == meshes[j], i == j) << meshes[i] << " " << meshes[j];
    }
  }
  const DeviceMesh again(world, c10::kCPU, {2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}, {"dp", "tp"});
  EXPECT_EQ(again, meshes[1]);
  EXPECT_EQ(again.hash(), meshes[1].hash());
  EXPECT_EQ(set.count(again), 1);
}

TEST(DeviceMesh, UndefinedMeshEqualsOnlyItself) {
  EXPECT_FALSE(DeviceMesh().defined());
  EXPECT_EQ(DeviceMesh(), DeviceMesh());
  EXPECT_EQ(DeviceMesh().to_string(), "mesh()");
  EXPECT_EQ(DeviceMesh().hash(), DeviceMesh().hash());
}

TEST(DeviceMesh, TextParsesBackToTheSameMesh) {
  const auto world = world_at(3, 16);
  const std::vector<std::pair<DeviceMesh, std::string>> written = {
      {DeviceMesh(world, c10::kCPU, {2, 4}, {"dp", "tp"}), "mesh(dp=2,tp=4)"},
      {DeviceMesh(world, c10::kCPU, {1}), "mesh(d0=1)"},
      {DeviceMesh(world, c10::kCUDA, {2}, {1, 3}, {"tp"}), "mesh(tp=2; cuda; ranks=1,3)"},
      {DeviceMesh(world, c10::kCUDA, {2, 2}, {"a_1", "B2"}), "mesh(a_1=2,B2=2; cuda)"},
      {DeviceMesh(world, c10::kCPU, {2}, {1, 0}, {"ranks"}), "mesh(ranks=2; ranks=1,0)"},
      {DeviceMesh(world, c10::kCPU, {1, 1, 1, 1, 1, 1, 1, 2}), "mesh(d0=1,d1=1,d2=1,d3=1,d4=1,d5=1,d6=1,d7=2)"},
  };
  for (const auto& [mesh, text] : written) {
    EXPECT_EQ(mesh.to_string(), text);
    EXPECT_EQ(DeviceMesh::parse(text, world), mesh) << text;
    std::ostringstream stream;
    stream << mesh;
    EXPECT_EQ(stream.str(), text);
  }
  EXPECT_EQ(DeviceMesh::parse(" mesh( dp = 2 , tp=4 ;ranks=0,1,2,3,4,5,6,7; cpu ) ", world), written[0].first);
}

TEST(DeviceMesh, ParsedWithoutAWorldIsSeenFromRankZero) {
  const auto mesh = DeviceMesh::parse("mesh(dp=64,tp=8)");
  EXPECT_EQ(mesh.coordinate(), (Ints{0, 0}));
  EXPECT_EQ(mesh.size(), 512);
  EXPECT_EQ(mesh, DeviceMesh::parse("mesh(dp=64,tp=8)"));
  EXPECT_FALSE(DeviceMesh::parse("mesh(tp=2; ranks=1,3)").is_member());
}

TEST(DeviceMesh, BadTextRaisesWithThePlace) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "'mesh(' at column 1"},
      {"mesh()", "a word of letters, digits and underscores at column 6"},
      {"mesh(dp)", "'=' at column 8"},
      {"mesh(dp=x)", "an integer at column 9"},
      {"mesh(dp=2", "')' at column 10"},
      {"mesh(\"dp=2)", "a name that ends with a quote at column 6"},
      {"mesh(dp=2;)", "a word of letters, digits and underscores at column 11"},
      {"mesh(dp=2; ranks)", "'=' at column 17"},
      {"mesh(dp=2; ranks=1,)", "an integer at column 20"},
      {"mesh(dp=2; cuda:1)", "')' at column 16"},
      {"mesh(dp=2) x", "the end of the text at column 12"},
  };
  for (const auto& [text, expected] : bad) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { DeviceMesh::parse(text); }),
        "[DeviceMesh::parse] expected " + expected + ", but got '" + text +
            "'. See docs/notation.md for the notation.");
  }
  for (const std::string device : {"gpu", "cuda1"}) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { DeviceMesh::parse("mesh(dp=2; " + device + ")"); }),
        "[DeviceMesh::parse] a device type or ranks=... is required after ';', but got '" + device +
            "'. Use for example cuda.");
  }
}

TEST(DeviceMesh, ImpossibleMeshesRaise) {
  const auto text = [](const Ints& shape, const Names& names = {}) {
    return error_text<c10::ValueError>([&] { DeviceMesh(world_at(0, 8), c10::kCPU, shape, names); });
  };
  EXPECT_EQ(text({}), "[DeviceMesh] a mesh has 1 to 8 dims, but got shape [].");
  EXPECT_EQ(text(Ints(9, 1)), "[DeviceMesh] a mesh has 1 to 8 dims, but got shape [1, 1, 1, 1, 1, 1, 1, 1, 1].");
  EXPECT_EQ(text({2, 0}), "[DeviceMesh] every mesh dim needs at least one rank, but got shape [2, 0].");
  EXPECT_EQ(text({-1, -3}), "[DeviceMesh] every mesh dim needs at least one rank, but got shape [-1, -3].");
  EXPECT_EQ(
      text({2, 5}),
      "[DeviceMesh] a mesh of shape [2, 5] needs ranks below the world size 8, but got rank 8. "
      "Start more ranks or make the mesh smaller.");
  EXPECT_EQ(
      text({4294967296, 4294967296}),
      "[DeviceMesh] a mesh has at most 16777216 ranks, but got shape [4294967296, 4294967296].");
  EXPECT_EQ(text({2, 4}, {"dp"}), "[DeviceMesh] one name per mesh dim is required, but got 1 names (dp) for 2 dims.");
  EXPECT_EQ(
      text({8}, {"dp", "tp"}), "[DeviceMesh] one name per mesh dim is required, but got 2 names (dp,tp) for 1 dims.");
  EXPECT_EQ(text({2, 4}, {"dp", "dp"}), "[DeviceMesh] the names of mesh dims must differ, but got 'dp' twice.");
}

TEST(DeviceMesh, NamesThatAreNoWordsAreQuoted) {
  for (const std::string name : {"mesh-0", " d p ", "", "a=2,b", "say \"hi\"", "back\\slash\\", "\"", "größe"}) {
    const DeviceMesh mesh(world_at(0, 8), c10::kCPU, {2, 4}, {name, "tp"});
    EXPECT_EQ(DeviceMesh::parse(mesh.to_string(), mesh.world()), mesh) << mesh.to_string();
    EXPECT_EQ(mesh.dim(name), 0);
  }
  EXPECT_EQ(DeviceMesh(world_at(0, 2), c10::kCPU, {2}, {"mesh-0"}).to_string(), "mesh(\"mesh-0\"=2)");
  EXPECT_EQ(DeviceMesh(world_at(0, 2), c10::kCPU, {2}, {"a\"\\"}).to_string(), R"(mesh("a\"\\"=2))");
}

TEST(DeviceMesh, ImpossibleRankArraysRaise) {
  const auto text = [](const Ints& shape, const Ints& ranks) {
    return error_text<c10::ValueError>([&] { DeviceMesh(world_at(0, 8), c10::kCPU, shape, ranks); });
  };
  EXPECT_EQ(text({2, 2}, {0, 1, 2}), "[DeviceMesh] shape [2, 2] needs 4 ranks, but got 3.");
  EXPECT_EQ(text({2}, {}), "[DeviceMesh] shape [2] needs 2 ranks, but got 0.");
  EXPECT_EQ(text({2, 2}, {0, 1, 2, 1}), "[DeviceMesh] a rank may occur only once in a mesh, but got 1 twice.");
  EXPECT_EQ(text({0}, {}), "[DeviceMesh] every mesh dim needs at least one rank, but got shape [0].");
  for (const auto rank : {int64_t{8}, int64_t{-1}}) {
    EXPECT_EQ(
        text({2}, {0, rank}),
        "[DeviceMesh] a mesh of shape [2] needs ranks below the world size 8, but got rank " + std::to_string(rank) +
            ". Start more ranks or make the mesh smaller.");
  }
}

TEST(DeviceMesh, KeepsAValuePerSetOfDimsForAsLongAsAHandleLives) {
  auto mesh = DeviceMesh::parse("mesh(dp=2,tp=4)");
  auto value = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = value;
  mesh.keep_for({1, 0}, std::move(value));
  EXPECT_EQ(mesh.kept_for({0, 1}), watched.lock());
  EXPECT_EQ(mesh.kept_for(0), nullptr);
  auto copy = mesh;
  mesh = {};
  EXPECT_EQ(copy.kept_for({0, 1}), watched.lock());
  EXPECT_EQ(DeviceMesh::parse("mesh(dp=2,tp=4)").kept_for({0, 1}), nullptr);
  copy = {};
  EXPECT_TRUE(watched.expired());
}

} // namespace device_mesh_test

} // namespace weft
