#include "weft/fully_sharded/flat_parameters.h"

#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace flat_parameters_test {
using namespace weft::testing;

std::vector<at::Tensor> parameters() {
  return {whole_numbers({5, 3}), whole_numbers({7}), whole_numbers({1, 2, 2}), whole_numbers({0, 4})};
}

TEST(FlatParameters, OneCallGathersAllOfThem) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    const CommLog log(mesh);
    flat.start_gather(pool);
    flat.finish_gather();
    EXPECT_EQ(log.calls(), 1);
    for (size_t k = 0; k < flat.size(); ++k) {
      expect_equal(flat.gathered_local(k), parameters()[k]);
    }
  });
}

TEST(FlatParameters, AreGatheredAgainOnlyAfterAWrite) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    flat.start_gather(pool);
    flat.finish_gather();
    const CommLog log(mesh);
    flat.start_gather(pool);
    flat.finish_gather();
    EXPECT_EQ(log.calls(), 0);
    flat.leaf(0).mul_(2);
    flat.start_gather(pool);
    flat.finish_gather();
    EXPECT_EQ(log.calls(), 1);
    expect_equal(flat.gathered_local(0), parameters()[0] * 2);
    flat.release();
    EXPECT_FALSE(flat.is_gathered());
  });
}

TEST(FlatParameters, ShardsThatGotOtherMemoryAreFound) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    flat.start_gather(pool);
    flat.finish_gather();
    const auto other = make_dtensor(as_dtensor(flat.leaf(1))->local().clone().fill_(9), flat.spec(1));
    flat.leaf(1).set_data(other);
    flat.start_gather(pool);
    flat.finish_gather();
    expect_equal(flat.gathered_local(1), at::full({7}, 9.0F));
    flat.leaf(1).fill_(3); // the leaf is a view of the buffer again
    flat.start_gather(pool);
    flat.finish_gather();
    expect_equal(flat.gathered_local(1), at::full({7}, 3.0F));
  });
}

TEST(FlatParameters, AreCastBeforeTheyAreGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, at::kBFloat16);
    const CommLog log(mesh);
    flat.start_gather(std::make_shared<BufferPool>());
    flat.finish_gather();
    expect_equal(flat.gathered_local(0), parameters()[0].to(at::kBFloat16));
    EXPECT_LT(log.bytes(), 64 * 2 * 2);
  });
}

} // namespace flat_parameters_test
} // namespace weft
