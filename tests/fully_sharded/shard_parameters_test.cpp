#include "weft/fully_sharded/shard_parameters.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"

#include <gtest/gtest.h>

namespace weft {

namespace shard_parameters_test {
using namespace weft::testing;

TEST(ShardParameters, APlainParameterGetsRaggedShards) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = whole_numbers({8, 4});
    const auto bias = whole_numbers({8});
    const auto shards = shard_parameters({weight, bias}, mesh, mesh.name(0));
    EXPECT_EQ(spec_of(shards[0])->layout().to_string(), "{S(0|5:3)}");
    EXPECT_EQ(spec_of(shards[1])->layout().to_string(), "{S(0|0:8)}");
    expect_equal(full_tensor(shards[0]), weight);
    expect_equal(full_tensor(shards[1]), bias);
  });
}

TEST(ShardParameters, OtherMeshDimsShardFirst) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto weight = whole_numbers({7, 3});
    const auto colwise = distribute_tensor(weight, mesh, {Replicate(), Shard(0)});
    const auto rowwise = distribute_tensor(weight, mesh, {Replicate(), Shard(1)});
    const auto shards = shard_parameters({colwise, rowwise}, mesh, mesh.name(0));
    expect_equal(full_tensor(shards[0]), weight);
    expect_equal(full_tensor(shards[1]), weight);
    EXPECT_EQ(spec_of(shards[0])->layout().to_string(), "{S(0|4:0)[1], S(0)[0]}");
    EXPECT_EQ(spec_of(shards[1])->layout().to_string(), "{S(0|1:6), S(1)}");
  });
}

TEST(ShardParameters, MemoryIsInTheOrderThatTheSpecSays) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto weight = whole_numbers({7, 6, 5});
    const auto rowwise = distribute_tensor(weight, mesh, {Replicate(), Shard(0)});
    for (const auto& parameter : {weight, rowwise}) {
      for (const int64_t dim : {0, 1, 2}) {
        const auto shard = shard_parameters({parameter}, mesh, mesh.name(0), std::nullopt, {dim})[0];
        expect_equal(full_tensor(shard), weight);
        EXPECT_EQ(order_in_memory(*spec_of(shard))[0], dim);
        const auto& local = as_dtensor(shard)->local();
        EXPECT_TRUE(in_stride_order(local, *spec_of(shard)).is_same(local));
      }
    }
  });
}

TEST(ShardParameters, AParameterOnAnotherDimOfTheMeshComesToBeOnBoth) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto names = mesh.names();
    const auto weight = whole_numbers({6, 3});
    const auto parameter = distribute_tensor(weight, mesh.submesh({names[1]}), {Shard(1)});
    const auto shards = shard_parameters({parameter}, mesh.submesh({names[0]}), names[0]);
    EXPECT_EQ(mesh_of(shards[0]), mesh);
    expect_equal(full_tensor(shards[0]), weight);
  });
}

TEST(ShardParameters, GroupsShareADtypeAMeshAndWhetherTheyAreTrained) {
  const auto a = at::ones({2});
  const auto trained = at::ones({2}).requires_grad_();
  const auto half = at::ones({2}, at::kHalf);
  using Groups = std::vector<std::vector<size_t>>;
  EXPECT_EQ(flat_groups({a, trained, half, a, trained}), (Groups{{0, 3}, {1, 4}, {2}}));
}

TEST(ShardParameters, RaisesForWhatItCannotShard) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { shard_parameters({at::ones({})}, mesh, mesh.name(0)); }),
        "[fully_shard] parameters with a dim to shard are required, but got one without. Make it one of shape [1], or "
        "name it among ignored_params.");
    const auto sharded = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    EXPECT_NE(
        error_text<c10::ValueError>([&] {
          shard_parameters({sharded}, mesh, mesh.name(0));
        }).find("Call fully_shard once for a module, after parallelize_module."),
        std::string::npos);
  });
}

} // namespace shard_parameters_test
} // namespace weft
