#include "weft/fully_sharded/shard_dims.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace shard_dims_test {
using namespace weft::testing;

TEST(ShardDims, WithoutNamesTheyAreThoseOfPyTorch) {
  const auto one = shard_dims(DeviceMesh::parse("mesh(dp=2)"), std::nullopt, std::nullopt);
  EXPECT_EQ(one.shard, "dp");
  EXPECT_EQ(one.replicate, std::nullopt);
  const auto two = shard_dims(DeviceMesh::parse("mesh(a=2,b=2)"), std::nullopt, std::nullopt);
  EXPECT_EQ(two.shard, "b");
  EXPECT_EQ(two.replicate, "a");
  EXPECT_EQ(shard_dims(DeviceMesh::parse("mesh(a=2,b=2)"), "a", std::nullopt).replicate, std::nullopt);
}

TEST(ShardDims, OthersAreErrors) {
  const auto error_of = [](const char* mesh, std::optional<std::string> shard, std::optional<std::string> replicate) {
    return error_text<c10::ValueError>([&] { shard_dims(DeviceMesh::parse(mesh), shard, replicate); });
  };
  expect_contains(error_of("mesh(a=2)", "b", std::nullopt), "a mesh dim of mesh(a=2) is required, but got 'b'.");
  expect_contains(error_of("mesh(a=2,b=2)", "a", "a"), "different mesh dims are required");
  expect_contains(
      error_of("mesh(a=1,b=1,c=1)", std::nullopt, std::nullopt),
      "mesh_dim is required for a mesh of several dims, but got none");
}

} // namespace shard_dims_test
} // namespace weft
