#include "weft/fully_sharded/gathered_parameter.h"

#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace gathered_parameter_test {
using namespace weft::testing;

/// Gathers a parameter that is sharded over dim 1 of the mesh already, by tensor parallelism.
void with_gathered(const std::function<void(const FlatParameters&, const DeviceMesh&)>& check) {
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto parallel = distribute_tensor(whole_numbers({6, 4}), mesh, {Replicate(), Shard(1)});
    FlatParameters flat(shard_parameters({parallel}, mesh, mesh.name(0)), 0, std::nullopt);
    flat.start_gather(std::make_shared<BufferPool>());
    flat.finish_gather();
    check(flat, mesh);
  });
}

TEST(GatheredParameter, IsReplicatedOverTheShardsMeshDimInTheGlobalView) {
  with_gathered([](const FlatParameters& flat, const DeviceMesh& mesh) {
    const auto parameter = gathered_parameter(flat, 0, {.shard = mesh.name(0), .replicate = std::nullopt}, true);
    EXPECT_EQ(as_dtensor(parameter)->spec()->layout(), Layout({Replicate(), Shard(1)}));
    EXPECT_EQ(as_dtensor(parameter)->spec()->mesh(), mesh);
    expect_equal(full_tensor(parameter), whole_numbers({6, 4}));
  });
}

TEST(GatheredParameter, IsOnTheOtherMeshDimsForDataThatDifferByRank) {
  with_gathered([](const FlatParameters& flat, const DeviceMesh& mesh) {
    const auto parameter = gathered_parameter(flat, 0, {.shard = mesh.name(0), .replicate = std::nullopt}, false);
    EXPECT_EQ(as_dtensor(parameter)->spec()->mesh(), mesh.submesh({mesh.name(1)}));
    EXPECT_EQ(as_dtensor(parameter)->spec()->layout(), Layout({Shard(1)}));
    const auto plain = gathered_parameter(flat, 0, {.shard = mesh.name(0), .replicate = mesh.name(1)}, false);
    EXPECT_FALSE(is_dtensor(plain)) << "the other mesh dim holds replicas";
    expect_equal(plain, as_dtensor(parameter)->local());
  });
}

} // namespace gathered_parameter_test
} // namespace weft
